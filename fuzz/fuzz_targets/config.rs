//! The target `config` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| thalweg_fuzz::targets::config::run(input));
