use std::collections::BTreeMap;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::*;
use crate::state::{Mode, Replica};

fn router() -> Program {
    Program::from_json(include_str!("../../testdata/router.json")).expect("a program")
}

fn read(reader: &mut Reader<'_>, line: &str) -> Result<Update, String> {
    let mut read = reader.read_line(line).map_err(|error| error.what)?;
    assert_eq!(read.len(), 1, "a command that sets one thing");
    Ok(read.remove(0).update)
}

/// The key of an inserted, modified or deleted entry, which identifies it.
fn key(update: &Update) -> String {
    match update {
        Update::InsertEntry(_, entry) | Update::ModifyEntry(_, entry) => {
            format!("{:?} {}", entry.matches, entry.priority)
        }
        Update::DeleteEntry(_, matches, priority) => format!("{matches:?} {priority}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn entries_are_known_by_their_handles() {
    let program = router();
    let mut reader = Reader::new(&program);
    let mut say = |line: &str| read(&mut reader, line);
    let first = say("table_add routes set_hop 10.0.0.0/8 => 7").expect("an entry");
    let second = say("table_add routes set_hop 10.1.0.0/16 => 8").expect("an entry");
    let changed = say("table_modify routes set_hop 1 => 9").expect("it is there");
    assert_eq!(key(&changed), key(&second));
    assert_eq!(
        changed,
        say("table_modify routes set_hop 1 9").expect("no arrow")
    );
    let Update::ModifyEntry(_, entry) = &changed else {
        panic!("{changed:?}");
    };
    let EntryAction::Call(call) = &entry.action else {
        panic!("{entry:?}");
    };
    assert_eq!(call.data, [BigUint::from(9_u8)]);
    assert_eq!(
        key(&say("table_delete routes 0").expect("it is there")),
        key(&first)
    );
    // The place is free and has been vacated once: 1 << 24.
    assert!(say("table_delete routes 0").is_err_and(|what| what.contains("no entry 0")));
    say("table_add routes set_hop 10.2.0.0/16 => 7").expect("an entry");
    say("table_add routes set_hop 10.3.0.0/16 => 7").expect("an entry");
    assert!(say("table_modify routes set_hop 0 => 1").is_err());
    say("table_delete routes 16777216").expect("the third has the place of the first");
    say("table_delete routes 2").expect("the fourth has the next");
    say("table_clear routes").expect("a table");
    assert!(say("table_delete routes 1").is_err());
    let after = say("table_add routes set_hop 10.4.0.0/16 => 7").expect("an entry");
    assert_eq!(
        key(&say("table_delete routes 0").expect("the first")),
        key(&after)
    );
    for wrong in [
        "table_delete routes",
        "table_delete routes x",
        "table_modify routes set_hop",
    ] {
        assert!(say(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_ternary_entry_goes_with_its_priority() {
    let program = router();
    let mut reader = Reader::new(&program);
    let added = read(
        &mut reader,
        "table_add acl drop 192.0.2.0&&&255.255.255.0 17&&&0xff => 3",
    );
    let gone = read(&mut reader, "table_delete acl 0");
    assert_eq!(
        key(&added.expect("an entry")),
        key(&gone.expect("it is there"))
    );
}

/// A simple model of simple_switch: each place's entry, and how often it was vacated.
#[derive(Default)]
struct Slow {
    places: BTreeMap<u32, String>,
    left: BTreeMap<u32, u32>,
}

impl Slow {
    fn handle(&self, place: u32) -> u32 {
        let left = self.left.get(&place).copied().unwrap_or_default();
        (left % 256) << 24 | place
    }

    fn insert(&mut self, key: String) {
        let place = (0..).find(|place| !self.places.contains_key(place));
        self.places.insert(place.expect("there is always one"), key);
    }

    fn delete(&mut self, place: u32) -> String {
        *self.left.entry(place).or_default() += 1;
        self.places.remove(&place).expect("it is there")
    }
}

/// Compares with the slow twin over random commands, some of which are taken back.
#[test]
fn handles_are_those_of_simple_switch() {
    let program = router();
    let mut random = Pcg64Mcg::seed_from_u64(4);
    let mut reader = Reader::new(&program);
    let mut slow = Slow::default();
    let (mut taken_back, mut deleted) = (0, 0);
    for step in 0..20_000_u32 {
        let is_taken_back = random.random_ratio(1, 5);
        taken_back += u32::from(is_taken_back);
        match random.random_range(0..1_000) {
            0..500 => {
                let address = format!("10.{}.{}.0/24", step >> 8 & 255, step & 255);
                let line = format!("table_add routes set_hop {address} => 7");
                let update = read(&mut reader, &line).expect("an entry");
                match is_taken_back {
                    true => reader.take_back(),
                    false => slow.insert(key(&update)),
                }
            }
            500..998 => {
                let place = random.random_range(0..40);
                let handle = slow.handle(place);
                let update = read(&mut reader, &format!("table_delete routes {handle}"));
                assert_eq!(update.is_ok(), slow.places.contains_key(&place), "{handle}");
                let Ok(update) = update else { continue };
                assert_eq!(key(&update), slow.places[&place]);
                deleted += 1;
                match is_taken_back {
                    true => reader.take_back(),
                    false => drop(slow.delete(place)),
                }
            }
            _ => {
                read(&mut reader, "table_clear routes").expect("a table");
                match is_taken_back {
                    true => reader.take_back(),
                    false => slow = Slow::default(),
                }
            }
        }
        for (&place, expected) in &slow.places {
            let handle = slow.handle(place);
            let line = format!("table_modify routes set_hop {handle} => 9");
            assert_eq!(
                &key(&read(&mut reader, &line).expect("it is there")),
                expected
            );
            if random.random_ratio(1, 2) {
                break;
            }
        }
    }
    assert!(
        taken_back > 1_000 && deleted > 1_000,
        "{taken_back} {deleted}"
    );
}

#[test]
fn a_node_is_a_set_of_ports() {
    let program = router();
    let mut reader = Reader::new(&program);
    let text = ["mc_mgrp_create 1", "mc_node_create 7 3 1 2"];
    for line in text {
        reader.read_line(line).expect("it can be read");
    }
    let update = read(&mut reader, "mc_node_associate 1 0").expect("a group");
    let replicas = [1, 2, 3].map(|port| Replica { port, instance: 7 });
    assert_eq!(update, Update::Multicast(Mode::Set, 1, replicas.to_vec()));
    let twice = reader.read_line("mc_node_create 7 3 1 3");
    let what = twice.map_err(|error| error.what);
    assert_eq!(what, Err("the node has port 3 twice".to_owned()));
}
