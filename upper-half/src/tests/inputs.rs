//! Tests of the inputs that a retractable operation keeps.

use crate::object::datatype::Extents;
use crate::quiesce::retractable::{Inputs, MOST_KEPT};
use crate::tests::messages::{byte, world};
use crate::tests::mock_lower::start;
use contract::abi::IN_PLACE;
use core::ffi::c_void;

#[test]
fn a_rank_that_receives_a_gather_keeps_its_own_block() {
    let _mock = start();
    byte().body.extents.get_or_init(|| Extents {
        lower_bound: 0,
        extent: 1,
        true_lower_bound: 0,
        true_extent: 1,
    });
    let mut buffer = [0_u8; 16];
    let recvbuf: *mut c_void = buffer.as_mut_ptr().cast();
    let own = recvbuf.wrapping_byte_add(4);
    let of = |sendbuf: *const c_void, count| {
        Inputs::of_gather(sendbuf, recvbuf, world(), None, byte(), || (4, count))
    };
    for sendbuf in [IN_PLACE as *const c_void, own] {
        assert!(matches!(of(sendbuf, 3), Inputs::Overwritten(at, 3) if at == own));
        assert!(matches!(of(sendbuf, 0), Inputs::Stay));
        assert!(matches!(of(sendbuf, 1 + MOST_KEPT as i64), Inputs::Change));
    }
    assert!(matches!(of(recvbuf, 3), Inputs::Overwritten(at, 3) if at == recvbuf));
    let elsewhere = recvbuf.wrapping_byte_add(1);
    assert!(matches!(of(elsewhere, 3), Inputs::Stay));
    let of_other_root = Inputs::of_gather(own, recvbuf, world(), Some(1), byte(), || {
        panic!("the lists are another process's")
    });
    assert!(matches!(of_other_root, Inputs::Stay));
}
