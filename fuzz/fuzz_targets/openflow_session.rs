//! The target `openflow_session` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| thalweg_fuzz::targets::openflow_session::run(input));
