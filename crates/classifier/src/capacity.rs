//! Growing and shrinking lists: memory matters more here than copies.

/// Makes room for `count` more: one at a time at first, then eight, later an eighth of the
/// length.
pub(crate) fn grow<T>(list: &mut Vec<T>, count: usize) {
    if list.capacity() - list.len() < count {
        let more = match list.len() {
            0..8 => 1,
            len => (len / 8).max(8),
        };
        list.reserve_exact(count.max(more));
    }
}

/// Frees memory when less than a quarter of a list that is not small is used, or none of it.
pub(crate) fn shrink<T>(list: &mut Vec<T>) {
    let is_large = list.capacity() > 16 || list.is_empty();
    if is_large && list.len() < list.capacity().div_ceil(4) {
        list.shrink_to(list.len() * 2);
    }
}
