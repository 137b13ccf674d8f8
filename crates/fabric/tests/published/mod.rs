//! Opens the published traces in `$THALWEG_SHARED`, else `../shared` beside the workspace.

use std::io::BufReader;
use std::path::PathBuf;

use flate2::read::GzDecoder;
use thalweg_fabric::Placement;

pub(crate) fn open(name: &str) -> BufReader<GzDecoder<std::fs::File>> {
    let folder = match std::env::var_os("THALWEG_SHARED") {
        Some(folder) => folder.into(),
        None => PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
    };
    let path = folder.join("data/v2p").join(name);
    let file = std::fs::File::open(&path)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", path.display()));
    BufReader::new(GzDecoder::new(file))
}

pub(crate) fn placement() -> Placement {
    let name = "placement_n128_v80.json.gz";
    Placement::read(open(name), name).unwrap()
}
