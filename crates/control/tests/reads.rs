//! Tests answers to reads that are made piece by piece: their content, and of which state.

mod harness;

use harness::*;
use thalweg_control::model::Model;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::{Device, Reading};

/// Rows of each kind: several pages.
const ROWS: u32 = 700;

fn request(kinds: Vec<Kind>) -> p4::ReadRequest {
    let entities = kinds
        .into_iter()
        .map(|kind| p4::Entity { entity: Some(kind) });
    p4::ReadRequest {
        device_id: 1,
        entities: entities.collect(),
        ..Default::default()
    }
}

fn rest(reading: Reading) -> Vec<Kind> {
    let entities = reading.flat_map(|message| message.entities);
    entities.filter_map(|entity| entity.entity).collect()
}

fn wide(number: u32, port: u8) -> p4::TableEntry {
    let key = [0xbb, (number >> 8) as u8, number as u8];
    entry(MAC, vec![exact(1, &key)], does(forward(&[port])))
}

/// A device with a table and a counter of several pages.
fn filled() -> Device<Model> {
    let mut device = bare_device();
    let mut config = config();
    let info = config.p4info.as_mut().unwrap();
    info.tables[0].size = 1_024;
    info.counters[0].size = i64::from(ROWS);
    let action = p4::set_forwarding_pipeline_config_request::Action::VerifyAndCommit;
    device
        .handle_set_pipeline(&pipeline_request(action, Some(config)), at(0))
        .unwrap();
    let entries = (1..=ROWS).map(|number| insert(Kind::TableEntry(wide(number, 1))));
    write(&mut device, entries.collect()).unwrap();
    device
}

#[test]
fn pages_have_each_row_once_and_in_order() {
    let mut device = filled();
    let all = p4::TableEntry {
        counter_data: Some(p4::CounterData::default()),
        ..entry(MAC, vec![], None)
    };
    let whole = rest(device.read(request(vec![Kind::TableEntry(all.clone())])));
    let keys: Vec<_> = whole
        .iter()
        .map(|kind| match kind {
            Kind::TableEntry(entry) => entry.r#match.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected: Vec<_> = (1..=ROWS).map(|number| wide(number, 1).r#match).collect();
    assert_eq!(keys, expected);
    // Requests are answered one after the other, without mixing.
    let twice = rest(device.read(request(vec![Kind::TableEntry(all); 2])));
    assert_eq!(twice, [whole.clone(), whole].concat());
    let direct = Kind::DirectCounterEntry(p4::DirectCounterEntry::default());
    let direct = rest(device.read(request(vec![direct])));
    let of_mac = direct.iter().filter(|kind| match kind {
        Kind::DirectCounterEntry(counter) => counter.table_entry.as_ref().unwrap().table_id == MAC,
        other => panic!("{other:?}"),
    });
    assert_eq!(of_mac.count(), ROWS as usize);
}

#[test]
fn what_is_written_while_an_answer_is_sent_is_not_in_it() {
    let mut device = filled();
    let all = || {
        let entries = p4::TableEntry {
            counter_data: Some(p4::CounterData::default()),
            ..entry(MAC, vec![], None)
        };
        let counters = Kind::CounterEntry(p4::CounterEntry::default());
        request(vec![Kind::TableEntry(entries), counters])
    };
    let before = rest(device.read(all()));
    let reading = device.read(all());
    // One batch changes the first and the last rows of the answer.
    let counter = before.iter().find_map(|kind| match kind {
        Kind::CounterEntry(counter) => Some(*counter),
        _ => None,
    });
    let mut counter = counter.expect("the program has counters");
    if let Some(data) = &mut counter.data {
        data.packet_count += 7;
    }
    let updates = vec![
        delete(Kind::TableEntry(wide(1, 1))),
        modify(Kind::TableEntry(wide(ROWS, 2))),
        insert(Kind::TableEntry(wide(ROWS + 1, 1))),
        modify(Kind::CounterEntry(counter)),
    ];
    write(&mut device, updates).unwrap();
    assert!(
        rest(reading) == before,
        "an answer of the state at its beginning"
    );
    assert!(
        rest(device.read(all())) != before,
        "the next one has the write"
    );
}
