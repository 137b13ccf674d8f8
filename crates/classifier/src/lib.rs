//! Which rule matches, and which bits decided it.
