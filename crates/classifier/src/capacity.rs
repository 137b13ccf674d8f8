//! How lists grow and shrink: memory matters more here than copies.

/// Makes room for `count` more: one at first, then eight, later an eighth at a time.
pub(crate) fn grow<T>(list: &mut Vec<T>, count: usize) {
    if list.capacity() - list.len() < count {
        let more = match list.len() {
            0..8 => 1,
            len => (len / 8).max(8),
        };
        list.reserve_exact(count.max(more));
    }
}

/// Gives memory back once three quarters of it, and not just a little, are not used; all of an empty
/// list.
pub(crate) fn shrink<T>(list: &mut Vec<T>) {
    let is_large = list.capacity() > 16 || list.is_empty();
    if is_large && list.len() < list.capacity().div_ceil(4) {
        list.shrink_to(list.len() * 2);
    }
}
