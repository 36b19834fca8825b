//! Virtual MPI objects: the data behind the application's handles.
//!
//! [`table`] holds the objects of a kind. The other modules have the body of each kind: all that is needed to answer
//! queries about an object, and to create it again in a new lower half. The functions of MPI are in the modules above,
//! by chapter; nothing here calls them.

pub(crate) mod attributes;
pub mod comm;
pub(crate) mod datatype;
pub mod errhandler;
pub(crate) mod file;
pub(crate) mod group;
pub(crate) mod info;
pub(crate) mod info_hints;
pub mod lower_handle;
pub(crate) mod message;
pub(crate) mod op;
pub mod request;
pub(crate) mod session;
pub mod table;
pub(crate) mod unexpected;
pub(crate) mod win;

pub use comm::{Comm, CommBody};
pub use datatype::{Datatype, DatatypeBody};
pub use errhandler::{Errhandler, ErrhandlerBody};
pub use file::{File, FileBody};
pub use group::{Group, GroupBody};
pub use info::{Info, InfoBody};
pub use message::{Message, MessageBody};
pub use op::{Op, OpBody};
pub use request::{Request, RequestBody};
pub use session::{Session, SessionBody};
pub use table::{Body, Object, ObjectRef, Table, FIRST_DYNAMIC};
pub use win::{Win, WinBody};

use crate::runtime::lock::Lock;

/// Gives the tables memory and makes the predefined objects. To be called once, before anything
/// else of this library (calls after the first do nothing).
pub fn init() {
    static DONE: Lock<bool> = Lock::new(false);
    let mut done = DONE.lock();
    if !*done {
        GroupBody::table().init();
        ErrhandlerBody::table().init();
        InfoBody::table().init();
        CommBody::table().init();
        DatatypeBody::table().init();
        OpBody::table().init();
        RequestBody::table().init();
        MessageBody::table().init();
        WinBody::table().init();
        FileBody::table().init();
        SessionBody::table().init();
        *done = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::datatype::DatatypeBody;
    use crate::object::info::InfoBody;
    use crate::object::table::FIRST_DYNAMIC;

    #[test]
    fn predefined_objects_have_the_standards_values() {
        init();
        for &(name, value) in DatatypeBody::PREDEFINED {
            let datatype = Datatype::at(value as u32);
            assert_eq!(datatype.handle(), value, "{name}");
            assert!(datatype.is_predefined());
        }
        assert!(
            Comm::null().is_null() && !Comm::at(contract::abi::comm::COMM_WORLD as u32).is_null()
        );
        assert!(Request::null().is_null());
    }

    #[test]
    fn an_object_is_put_back_under_its_handle() {
        init();
        let make =
            || Group::make(0, group::GroupBody { ranks: [7].into() }).map(|group| group.index());
        let put_back = |index| {
            let body = group::GroupBody { ranks: [8].into() };
            Group::make_at(index, 0, body).map(|group| group.index())
        };
        let indices: Vec<u32> = (0..4).map(|_| make().expect("a group")).collect();
        assert!(put_back(indices[1]).is_err());
        for &index in &indices[..3] {
            Group::at(index).release();
        }
        // From the middle of the list of free entries, and beyond all that were ever used.
        assert_eq!(put_back(indices[1]), Ok(indices[1]));
        let beyond = indices[3] + 1000;
        assert_eq!(put_back(beyond), Ok(beyond));
        assert!(put_back(FIRST_DYNAMIC - 1).is_err() && put_back(GroupBody::CAPACITY).is_err());
        // All others are used once.
        let mut others: Vec<u32> = (0..1001).map(|_| make().expect("a group")).collect();
        others.extend([indices[1], indices[3], beyond]);
        others.sort_unstable();
        let all = others.len();
        others.dedup();
        assert_eq!(others.len(), all);
    }

    #[test]
    fn an_object_lives_until_its_last_reference_is_given_back() {
        init();
        let info = Info::make(7, InfoBody::predefined(0)).expect("an object");
        let index = info.index();
        assert!(index >= FIRST_DYNAMIC);
        info.retain();
        info.release();
        let lives = || {
            InfoBody::table()
                .get(index)
                .is_some_and(|info| info.has_lower(7))
        };
        assert!(lives());
        info.release();
        assert!(!lives());
    }
}
