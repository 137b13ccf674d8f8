//! Compiles the published P4Runtime definition to Rust, without `protoc`.

use std::error::Error;
use std::path::PathBuf;

/// The file to compile, with everything that it imports.
const SERVICE: &str = "p4/v1/p4runtime.proto";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut compiler = protox::Compiler::new(["proto"])?;
    compiler
        .include_imports(true)
        .include_source_info(false)
        .open_files([SERVICE])?;
    // These descriptors are used to read P4Info's text format.
    let folder = PathBuf::from(std::env::var("OUT_DIR")?);
    let descriptors = compiler.encode_file_descriptor_set();
    std::fs::write(folder.join("p4runtime.bin"), descriptors)?;
    tonic_prost_build::configure()
        .build_transport(false)
        .bytes(".")
        .compile_fds(compiler.file_descriptor_set())?;
    Ok(())
}
