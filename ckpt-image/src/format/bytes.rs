//! Little-endian fields at fixed offsets, zeros and hexadecimal, for the parts that no serializer encodes.

/// The `N` bytes at `at`. Only for offsets that the format fixes, within arrays of known length.
pub(crate) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

/// The u32 at `at`.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

/// The u64 at `at`.
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}

/// Stores `value` at `at`.
pub(crate) fn put(bytes: &mut [u8], at: usize, value: &[u8]) {
    bytes[at..at + value.len()].copy_from_slice(value);
}

/// `n` rounded up to a multiple of `to`, or `None` on overflow.
pub(crate) fn round_up(n: u64, to: u64) -> Option<u64> {
    n.checked_next_multiple_of(to)
}

/// Whether all bytes are zero. It runs over every saved page, so it compares wide pieces and stops at the
/// first non-zero one. In most pages that is the first piece.
pub(crate) fn all_zero(bytes: &[u8]) -> bool {
    let zero = |piece: &[u8]| piece.iter().fold(0, |all, byte| all | byte) == 0;
    let mut pieces = bytes.chunks_exact(64);
    pieces.by_ref().all(zero) && zero(pieces.remainder())
}

/// Lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Decodes exactly `2 * N` lower-case hexadecimal digits.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let text = text.as_bytes();
    if text.len() != 2 * N {
        return None;
    }
    let digit = |c: u8| match c {
        b'0'..=b'9' => Some(c - b'0'),
        b'a'..=b'f' => Some(c - b'a' + 10),
        _ => None,
    };
    let mut out = [0; N];
    for (byte, pair) in out.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_recognised_at_every_length() {
        for len in 0..200 {
            let mut bytes = vec![0u8; len];
            assert!(all_zero(&bytes));
            for at in 0..len {
                bytes[at] = 1;
                assert!(!all_zero(&bytes), "{at} of {len}");
                bytes[at] = 0;
            }
        }
    }

    #[test]
    fn hex_round_trips() {
        assert_eq!(unhex::<3>(&hex(&[0, 171, 255])), Some([0, 171, 255]));
        assert_eq!(unhex::<3>("00ABff"), None);
        assert_eq!(unhex::<3>("00ab"), None);
    }
}
