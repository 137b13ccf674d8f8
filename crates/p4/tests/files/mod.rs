//! Finds the shared data: in `$THALWEG_SHARED`, or beside the project.

use std::path::{Path, PathBuf};

/// A folder of the shared data for P4.
pub(crate) fn folder(name: &str) -> PathBuf {
    let shared = std::env::var_os("THALWEG_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"),
        PathBuf::from,
    );
    shared.join("data/p4").join(name)
}

/// The files of a folder with this ending, ordered by name.
pub(crate) fn files(name: &str, ending: &str) -> Vec<PathBuf> {
    let folder = folder(name);
    let entries = std::fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}; set THALWEG_SHARED", folder.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    files.retain(|path| path.to_string_lossy().ends_with(ending));
    files.sort();
    files
}
