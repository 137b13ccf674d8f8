//! Files that are read back, cut off, damaged and foreign.

use std::fs;
use std::path::PathBuf;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;

std::thread_local! {
    /// How many blocks this thread may still write; `None` for any number.
    static WRITES_LEFT: std::cell::Cell<Option<u32>> = const { std::cell::Cell::new(None) };
}

/// Called before each block is written: fails where a test has the process killed.
pub(crate) fn spend_write() -> std::io::Result<()> {
    match WRITES_LEFT.get() {
        None => Ok(()),
        Some(0) => Err(std::io::Error::other("the process is gone")),
        Some(left) => {
            WRITES_LEFT.set(Some(left - 1));
            Ok(())
        }
    }
}

type Records = Vec<(u8, Vec<u8>)>;

/// A file in a folder of its own.
fn new_file() -> (TempDir, SnapshotFile) {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("of.snapshot");
    (folder, SnapshotFile::new(path, 1))
}

fn write(file: &SnapshotFile, records: &Records) {
    let written = file.write::<SnapshotError>(|writer| {
        let mut records = records.iter();
        records.try_for_each(|(section, record)| writer.add(*section, record))
    });
    written.expect("there is room");
}

fn of_section(records: &Records, section: u8) -> Vec<&[u8]> {
    let records = records.iter().filter(|(of, _)| *of == section);
    records.map(|(_, record)| &record[..]).collect()
}

fn assert_has(pages: &SnapshotPages, records: &Records) {
    for section in 0..4 {
        let found: Vec<&[u8]> = pages.records(section).collect();
        assert_eq!(found, of_section(records, section));
    }
}

fn records() -> impl Strategy<Value = Records> {
    let bytes = prop_oneof![
        8 => prop::collection::vec(any::<u8>(), 0..200),
        1 => (any::<u8>(), 0..150_000_usize).prop_map(|(byte, len)| vec![byte; len]),
    ];
    prop::collection::vec((0..3_u8, bytes), 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Invariant 1: the last of several writes is there.
    #[test]
    fn what_is_read_is_what_was_written(first in records(), second in records()) {
        let (_folder, file) = new_file();
        for records in [&first, &second] {
            write(&file, records);
            let pages = file.read().expect("it is whole").expect("it is there");
            assert_has(&pages, records);
        }
    }

    /// Invariant 1: a process that is killed after any block leaves the former records or the
    /// new ones.
    #[test]
    fn a_write_that_is_cut_off_leaves_one_state_whole(
        first in records(),
        second in records(),
        writes in prop_oneof![0..40_u32, 0..400_u32],
    ) {
        let (_folder, file) = new_file();
        write(&file, &first);
        WRITES_LEFT.set(Some(writes));
        let written = file.write::<SnapshotError>(|writer| {
            let mut records = second.iter();
            records.try_for_each(|(section, record)| writer.add(*section, record))
        });
        WRITES_LEFT.set(None);
        let pages = file.read().expect("it is whole").expect("it is there");
        let has = |records: &Records| {
            (0..4).all(|section| pages.records(section).eq(of_section(records, section)))
        };
        prop_assert!(has(&second) || written.is_err() && has(&first));
        // The next write finds nothing in its way.
        write(&file, &first);
    }

    /// Invariant 2: one changed byte anywhere is an error, or changes nothing that is read.
    #[test]
    fn a_changed_byte_is_found(
        records in records(),
        at in any::<prop::sample::Index>(),
        bits in 1..=255_u8,
    ) {
        let (_folder, file) = new_file();
        write(&file, &records);
        let mut bytes = fs::read(file.path()).expect("it is there");
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        fs::write(file.path(), &bytes).expect("there is room");
        match file.read() {
            Ok(pages) => assert_has(&pages.expect("it is there"), &records),
            Err(error) => prop_assert!(error.is_of_file(), "{error}"),
        }
    }

    /// The same for a file that is cut off.
    #[test]
    fn a_file_that_is_cut_off_is_refused(records in records(), at in any::<prop::sample::Index>()) {
        let (_folder, file) = new_file();
        write(&file, &records);
        let bytes = fs::read(file.path()).expect("it is there");
        fs::write(file.path(), &bytes[..at.index(bytes.len())]).expect("there is room");
        match file.read() {
            Ok(pages) => assert_has(&pages.expect("it is there"), &records),
            Err(error) => prop_assert!(error.is_of_file(), "{error}"),
        }
    }

    /// The same for blocks of others in its place: zeros, noise, and its own of elsewhere.
    #[test]
    fn a_block_of_something_else_is_found(
        records in records(),
        places in (any::<prop::sample::Index>(), any::<prop::sample::Index>()),
        byte in any::<u8>(),
        is_copied in any::<bool>(),
    ) {
        let (_folder, file) = new_file();
        write(&file, &records);
        let mut bytes = fs::read(file.path()).expect("it is there");
        let blocks = bytes.len() / 4_096;
        let [to, from] = [places.0, places.1].map(|place| place.index(blocks) * 4_096);
        match is_copied {
            true => bytes.copy_within(from..from + 4_096, to),
            false => bytes[to..to + 4_096].fill(byte),
        }
        fs::write(file.path(), &bytes).expect("there is room");
        match file.read() {
            Ok(pages) => assert_has(&pages.expect("it is there"), &records),
            Err(error) => prop_assert!(error.is_of_file(), "{error}"),
        }
    }
}

#[test]
fn a_write_that_fails_leaves_the_former_records() {
    let (_folder, file) = new_file();
    let former = vec![(0, vec![1; 100]), (2, vec![2; 70_000])];
    write(&file, &former);
    let failed = file.write::<SnapshotError>(|writer| {
        for _ in 0..1_000 {
            writer.add(0, &[9; 1_000])?;
        }
        Err(SnapshotError::Busy)
    });
    assert!(matches!(failed, Err(SnapshotError::Busy)));
    let pages = file.read().expect("it is whole").expect("it is there");
    assert_has(&pages, &former);
}

#[test]
fn a_first_write_that_fails_leaves_no_file() {
    let (folder, file) = new_file();
    let failed = file.write::<SnapshotError>(|writer| {
        writer.add(0, b"half")?;
        Err(SnapshotError::Busy)
    });
    assert!(failed.is_err());
    assert!(file.read().expect("nothing is wrong").is_none());
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
}

#[test]
fn other_files_are_refused_by_name_and_kept() {
    let (_folder, file) = new_file();
    for text in [
        "",
        "short",
        "a text that is longer than the name of the format",
    ] {
        fs::write(file.path(), text).expect("there is room");
        let refused = file.read().expect_err("it is a text");
        assert!(matches!(refused, SnapshotError::Foreign), "{refused}");
    }
    let aside = file.set_aside().expect("it can be renamed");
    assert_eq!(
        aside,
        PathBuf::from(format!("{}.refused", file.path().display()))
    );
    assert!(aside.exists() && file.read().expect("nothing is wrong").is_none());
}

#[test]
fn another_format_is_refused_by_its_number() {
    let (_folder, file) = new_file();
    let newer = SnapshotFile::new(file.path(), 7);
    write(&newer, &vec![(0, b"of later".to_vec())]);
    let refused = file.read().expect_err("it is newer");
    let is_named = matches!(refused, SnapshotError::Format { found: 7, known: 1 });
    assert!(is_named, "{refused}");
}

#[test]
fn one_process_uses_a_file_at_a_time() {
    let (_folder, file) = new_file();
    write(&file, &vec![(0, b"mine".to_vec())]);
    let other = fs::File::open(file.path()).expect("it is there");
    other.lock().expect("it is free");
    assert!(matches!(file.read(), Err(SnapshotError::Busy)));
}
