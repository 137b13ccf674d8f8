//! How lists grow and shrink: memory matters more here than copies.

/// Makes room for `count` more, an eighth at a time.
pub(crate) fn grow<T>(list: &mut Vec<T>, count: usize) {
    if list.capacity() - list.len() < count {
        list.reserve_exact(count.max(list.len() / 8 + 1));
    }
}

/// Gives memory back once three quarters of it are not used.
pub(crate) fn shrink<T>(list: &mut Vec<T>) {
    if list.capacity() > 16 && list.len() < list.capacity() / 4 {
        list.shrink_to(list.len() * 2);
    }
}
