//! Tells the crate whether it is optimised, which the language cannot ask.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-check-cfg=cfg(thalweg_optimised)");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level != "0") {
        println!("cargo:rustc-cfg=thalweg_optimised");
    }
}
