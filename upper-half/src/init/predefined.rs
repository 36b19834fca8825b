//! The lower half's lower handles for predefined objects.

use crate::crossing::stubs::service;
use crate::datatype::extent::learn_size;
use crate::datatype::substitute;
use crate::object::comm::CommBody;
use crate::object::datatype::DatatypeBody;
use crate::object::errhandler::ErrhandlerBody;
use crate::object::file::FileBody;
use crate::object::group::GroupBody;
use crate::object::info::InfoBody;
use crate::object::message::MessageBody;
use crate::object::op::OpBody;
use crate::object::request::RequestBody;
use crate::object::table::{Body, Object};
use crate::object::win::WinBody;
use crate::object::Datatype;
use contract::HandleKind;

/// Asks the lower half for its lower handles of a kind's predefined objects. Those that its library lacks get the null
/// object's lower handle, so that using one is an error there.
fn learn<B: Body>() {
    let lower_handle = |value| word_of(B::KIND, value);
    let null = lower_handle(B::NULL);
    for &(_, value) in B::PREDEFINED {
        let known = lower_handle(value);
        let object = Object::<B>::at(value as u32);
        object.set_lower(if known == usize::MAX { null } else { known });
    }
}

/// The lower half's lower handle for a predefined object, by its standard value. It is known before MPI_Init, too.
pub(crate) fn word_of(kind: HandleKind, value: usize) -> usize {
    service::predefined(kind as u32, value)
}

/// Learns the lower handles of all predefined objects, in MPI_Init and at every restart. MPI is initialised below by
/// then.
pub(crate) fn learn_predefined() {
    learn::<CommBody>();
    learn::<GroupBody>();
    learn::<DatatypeBody>();
    learn::<OpBody>();
    learn::<ErrhandlerBody>();
    learn::<InfoBody>();
    learn::<RequestBody>();
    learn::<MessageBody>();
    learn::<WinBody>();
    learn::<FileBody>();
    substitute::fill_in();
    for &(_, value) in DatatypeBody::PREDEFINED {
        let known = Datatype::at(value as u32);
        if known.is_below() {
            learn_size(known);
        }
    }
}
