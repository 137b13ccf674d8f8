//! Fields in network byte order, as views read and representations write them.
//!
//! These functions panic on a range past the end, as slices do. The caller has checked the
//! length.

use std::ops::Range;

/// A field's byte range.
pub(super) type Field = Range<usize>;

/// The bytes of a field of width `N`.
#[inline]
pub(super) fn read<const N: usize>(bytes: &[u8], field: Field) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[field]);
    value
}

#[inline]
pub(super) fn read_u16(bytes: &[u8], field: Field) -> u16 {
    u16::from_be_bytes(read(bytes, field))
}

/// A field of three bytes: the network identifiers of tunnels.
#[inline]
pub(super) fn read_u24(bytes: &[u8], field: Field) -> u32 {
    let [high, middle, low] = read(bytes, field);
    u32::from_be_bytes([0, high, middle, low])
}

#[inline]
pub(super) fn read_u32(bytes: &[u8], field: Field) -> u32 {
    u32::from_be_bytes(read(bytes, field))
}

#[inline]
pub(super) fn write(bytes: &mut [u8], field: Field, value: &[u8]) {
    bytes[field].copy_from_slice(value);
}

#[inline]
pub(super) fn write_u16(bytes: &mut [u8], field: Field, value: u16) {
    write(bytes, field, &value.to_be_bytes());
}

#[inline]
pub(super) fn write_u24(bytes: &mut [u8], field: Field, value: u32) {
    write(bytes, field, &value.to_be_bytes()[1..]);
}

#[inline]
pub(super) fn write_u32(bytes: &mut [u8], field: Field, value: u32) {
    write(bytes, field, &value.to_be_bytes());
}
