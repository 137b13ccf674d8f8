//! The caches, their maintainers, and the loop that uses them.
