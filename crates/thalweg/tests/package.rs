//! The Debian package: its files are there, and what its units and scripts start is among them.

use std::fs;
use std::path::{Path, PathBuf};

const MANIFEST: &str = env!("CARGO_MANIFEST_DIR");

/// A file of the package: where it comes from, and where it goes.
struct Asset {
    from: String,
    to: String,
}

fn assets() -> Vec<Asset> {
    let text = fs::read_to_string(Path::new(MANIFEST).join("Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let assets = manifest["package"]["metadata"]["deb"]["assets"].as_array();
    let rows = assets.unwrap().iter().map(|row| {
        let word = |place: usize| row[place].as_str().unwrap().to_owned();
        let (from, mut to) = (word(0), format!("/{}", word(1)));
        if to.ends_with('/') {
            to += from.rsplit('/').next().unwrap();
        }
        Asset { from, to }
    });
    rows.collect()
}

fn package(name: &str) -> PathBuf {
    Path::new(MANIFEST).join("../../extras/package").join(name)
}

#[test]
fn every_file_is_there_or_made_before() {
    for Asset { from, .. } in assets() {
        let is_made = from.contains("target/");
        let path = Path::new(MANIFEST).join(&from);
        assert!(is_made || path.symlink_metadata().is_ok(), "{from}");
    }
    let script = fs::read_to_string(package("build")).unwrap();
    for folder in ["target/package/man", "target/package/completions"] {
        assert!(script.contains(folder), "{folder}");
    }
}

#[test]
fn the_second_name_leads_to_the_program() {
    let link = fs::read_link(package("ovs-vswitchd")).unwrap();
    assert_eq!(link, Path::new("../../bin/thalweg"));
    let to: Vec<String> = assets().into_iter().map(|asset| asset.to).collect();
    assert!(to.contains(&"/usr/bin/thalweg".to_owned()), "{to:?}");
    assert!(
        to.contains(&"/usr/lib/thalweg/ovs-vswitchd".to_owned()),
        "{to:?}"
    );
}

#[test]
fn units_and_scripts_name_files_of_the_package() {
    let to: Vec<String> = assets().into_iter().map(|asset| asset.to).collect();
    let names = ["thalweg@.service", "debian/postinst", "debian/prerm"];
    let mut found = 0;
    for name in names {
        let text = fs::read_to_string(package(name)).unwrap();
        let words = text.split([' ', '=', '\n']);
        let named = words.filter(|word| word.starts_with("/usr/") && word.contains("thalweg"));
        for word in named.map(|word| word.trim_end_matches('.')) {
            assert!(to.iter().any(|file| file == word), "{name}: {word}");
            found += 1;
        }
    }
    assert_eq!(found, 4);
}

#[test]
fn the_unit_keeps_what_packet_sockets_need_and_no_more() {
    let unit = fs::read_to_string(package("thalweg@.service")).unwrap();
    let lines: Vec<&str> = unit.lines().collect();
    for line in [
        "AmbientCapabilities=CAP_NET_RAW",
        "CapabilityBoundingSet=CAP_NET_RAW",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "SystemCallFilter=@system-service",
    ] {
        assert!(lines.contains(&line), "{line}");
    }
    let families = lines
        .iter()
        .find(|line| line.starts_with("RestrictAddressFamilies="));
    for family in ["AF_PACKET", "AF_NETLINK", "AF_UNIX", "AF_INET", "AF_INET6"] {
        assert!(
            families
                .unwrap()
                .split(['=', ' '])
                .any(|word| word == family),
            "{family}"
        );
    }
}
