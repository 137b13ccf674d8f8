//! The target `v2p_map` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| thalweg_fuzz::targets::v2p_map::run(input));
