//! The target `p4` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| thalweg_fuzz::targets::p4::run(input));
