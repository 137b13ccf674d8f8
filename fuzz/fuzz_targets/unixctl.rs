//! The target `unixctl` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| thalweg_fuzz::targets::unixctl::run(input));
