//! Finds words that hold on one machine only: its paths, and the hosts of package registries.
//!
//! The words are concatenated from halves here, so that this file passes its own check.

use super::Finding;
use super::source::TextFile;

const PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/tmp/tar", "get")];
const REGISTRIES: [&str; 10] = [
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npm", "js.org"),
    concat!("npm", "js.com"),
    concat!("deb.", "debian.org"),
    concat!("security.", "debian.org"),
    concat!("proxy.", "golang.org"),
    concat!("ruby", "gems.org"),
    concat!("art", "ifactory"),
];
/// The source that cargo writes into every lock file, whatever the registry.
const LOCK_SOURCE: &str = concat!("github.com/rust-lang/crates", ".io-index");

/// Finds every such word in a file.
pub(super) fn check(file: &TextFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let line = match file.path.ends_with("Cargo.lock") {
            true => line.replace(LOCK_SOURCE, ""),
            false => line.to_owned(),
        };
        let mut add = |word: &str, remedy: &str| {
            let what = format!("`{word}` is mentioned");
            findings.push(Finding::error(&file.path, index + 1, what, remedy));
        };
        if let Some(path) = PATHS.iter().find(|path| line.contains(**path)) {
            add(
                path,
                "a path of one machine; use a relative path or a temporary folder",
            );
        }
        if let Some(host) = REGISTRIES.iter().find(|host| line.contains(**host)) {
            add(host, "leave the choice of a registry to whoever builds");
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: String) -> usize {
        check(&TextFile {
            path: path.to_owned(),
            text,
        })
        .len()
    }

    #[test]
    fn machine_paths_and_registries_are_found() {
        assert_eq!(
            count(
                "a.sh",
                format!("cd {}x\ncurl {}\n", PATHS[0], REGISTRIES[1])
            ),
            2
        );
        assert_eq!(
            count("a.md", "a workspace, a framework/ and /tmp/x\n".to_owned()),
            0
        );
    }

    #[test]
    fn only_lock_files_may_name_the_index() {
        let line = format!("source = \"registry+https://{LOCK_SOURCE}\"\n");
        assert_eq!(count("fuzz/Cargo.lock", line.clone()), 0);
        assert_eq!(count("Cargo.toml", line), 1);
    }
}
