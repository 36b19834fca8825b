//! The table of the calls that were written last. Writer and reader have the same, so that a call which is in the table
//! takes two bytes.

use contract::record::{Call, CallTable, CALLS};

use crate::event::Event;

/// An empty table.
pub fn empty() -> Box<CallTable> {
    let calls: Box<[Call]> = vec![Call::default(); CALLS].into();
    match calls.try_into() {
        Ok(table) => table,
        Err(_) => unreachable!("it has as many entries"),
    }
}

/// The place of a call in the table.
#[inline(always)]
fn place(call: &Call) -> u16 {
    let small = u64::from(call.function)
        ^ call.comm.rotate_left(17)
        ^ u64::from(call.peer.cast_unsigned()).rotate_left(8)
        ^ u64::from(call.tag.cast_unsigned()).rotate_left(29)
        ^ call.count.cast_unsigned().rotate_left(43);
    let mixed = small.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 48) as u16 % CALLS as u16
}

/// The number of a call in the table, if it is there.
#[inline(always)]
pub fn find(table: &CallTable, call: &Call) -> Option<u16> {
    let number = place(call);
    (table[usize::from(number)] == *call).then_some(number)
}

/// The event of a call, which is in the table afterwards.
pub fn write(table: &mut CallTable, call: &Call) -> Event {
    if let Some(number) = find(table, call) {
        return Event::Call(number);
    }
    let number = place(call);
    table[usize::from(number)] = *call;
    Event::NewCall(number, *call)
}

/// The call of an event, if it is one of a call, which is in the table afterwards.
pub fn read(table: &mut CallTable, event: &Event) -> Option<Call> {
    match event {
        Event::Call(number) => table.get(usize::from(*number)).copied(),
        Event::NewCall(number, call) => {
            if let Some(entry) = table.get_mut(usize::from(*number)) {
                *entry = *call;
            }
            Some(*call)
        }
        Event::Anew => {
            table.fill(Call::default());
            None
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_reader_has_the_calls_of_the_writer(calls in prop::collection::vec((0_u32..9, 0_i32..2000), 0..3000)) {
            let (mut writer, mut reader) = (empty(), empty());
            for (function, peer) in calls {
                let call = Call { function, peer, ..Call::default() };
                let event = write(&mut writer, &call);
                prop_assert_eq!(read(&mut reader, &event), Some(call));
            }
        }
    }

    #[test]
    fn a_call_that_comes_again_is_not_written_again() {
        let mut table = empty();
        let call = Call {
            function: 40,
            ..Call::default()
        };
        assert!(matches!(write(&mut table, &call), Event::NewCall(_, written) if written == call));
        assert!(matches!(write(&mut table, &call), Event::Call(_)));
        read(&mut table, &Event::Anew);
        assert!(matches!(write(&mut table, &call), Event::NewCall(..)));
    }
}
