//! Tests a controller's view: reads after writes, pipelines, packets, digests, idle time-outs.

mod harness;

use std::time::Duration;

use harness::*;
use thalweg_control::model::Model;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use thalweg_control::proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use thalweg_control::proto::p4::v1::stream_message_response::Update as Response;
use thalweg_control::{
    Code, Count, Device, EntryKey, EntryRef, Failure, Side, StreamEvent, StreamId, Value,
};

fn counted(mut entry: p4::TableEntry) -> p4::TableEntry {
    entry.counter_data = Some(p4::CounterData {
        byte_count: 60,
        packet_count: 1,
    });
    entry.meter_config = Some(p4::MeterConfig {
        cir: 1,
        cburst: 2,
        pir: 3,
        pburst: 4,
        eburst: 0,
    });
    entry.metadata = bytes::Bytes::from_static(b"cookie");
    entry.idle_timeout_ns = 1_000;
    entry
}

#[test]
fn an_entry_is_read_as_it_was_written() {
    let mut device = device();
    let written = counted(mac(1));
    write(&mut device, vec![insert(Kind::TableEntry(written.clone()))]).unwrap();
    let direct = p4::TableEntry {
        table_id: MAC,
        counter_data: Some(Default::default()),
        meter_config: Some(Default::default()),
        ..Default::default()
    };
    let found = read(&mut device, Kind::TableEntry(direct.clone()));
    assert_eq!(found, [Kind::TableEntry(written.clone())]);
    // Direct resources are read only on request.
    let plain = read(&mut device, Kind::TableEntry(entry(MAC, vec![], None)));
    let mut bare = written.clone();
    (bare.counter_data, bare.meter_config) = (None, None);
    assert_eq!(plain, [Kind::TableEntry(bare.clone())]);
    // A modification without a meter resets the meter. Without a counter the counter continues,
    // and without an action the action stays. Metadata are set as given.
    let mut changed = mac(1);
    changed.action = None;
    write(&mut device, vec![modify(Kind::TableEntry(changed))]).unwrap();
    let mut expected = mac(1);
    expected.counter_data = written.counter_data;
    assert_eq!(
        read(&mut device, Kind::TableEntry(direct.clone())),
        [Kind::TableEntry(expected)]
    );
    assert!(
        device
            .target_mut()
            .rows(Side::Running)
            .direct_meters
            .is_empty()
    );
    write(&mut device, vec![delete(Kind::TableEntry(mac(1)))]).unwrap();
    assert!(read(&mut device, Kind::TableEntry(direct)).is_empty());
}

#[test]
fn filters_choose() {
    let mut device = device();
    let acl = |priority, port: u8| {
        let base = entry(ACL, vec![optional(3, &[port])], does(forward(&[port])));
        Kind::TableEntry(p4::TableEntry { priority, ..base })
    };
    let mut other = entry(ACL, vec![], does(plain(NO_ACTION)));
    other.priority = 2;
    let updates = vec![
        acl(1, 1),
        acl(2, 2),
        acl(2, 3),
        Kind::TableEntry(other.clone()),
    ];
    write(&mut device, updates.into_iter().map(insert).collect()).unwrap();
    write(&mut device, vec![insert(Kind::TableEntry(counted(mac(1))))]).unwrap();
    let mut count = |filter: p4::TableEntry| read(&mut device, Kind::TableEntry(filter)).len();
    let table = |id| entry(id, vec![], None);
    // The program's constant entry is one of them.
    assert_eq!(count(table(0)), 6);
    assert_eq!(count(table(ACL)), 4);
    assert_eq!(count(table(FIXED)), 1);
    assert_eq!(count(table(ROUTE)), 0);
    assert_eq!(
        count(p4::TableEntry {
            priority: 2,
            ..table(ACL)
        }),
        3
    );
    assert_eq!(count(entry(ACL, vec![], does(plain(FORWARD)))), 3);
    let one = p4::TableEntry {
        priority: 2,
        ..entry(ACL, vec![optional(3, &[2])], None)
    };
    assert_eq!(count(one.clone()), 1);
    assert_eq!(count(p4::TableEntry { priority: 1, ..one }), 0);
    let cookie = bytes::Bytes::from_static(b"cookie");
    assert_eq!(
        count(p4::TableEntry {
            metadata: cookie,
            ..table(MAC)
        }),
        1
    );
    let none = bytes::Bytes::from_static(b"none");
    assert_eq!(
        count(p4::TableEntry {
            metadata: none,
            ..table(MAC)
        }),
        0
    );
    assert_eq!(
        count(p4::TableEntry {
            is_default_action: true,
            ..table(0)
        }),
        7
    );
}

#[test]
fn a_read_gives_what_is_right_and_says_what_is_wrong() {
    let mut device = device();
    write(&mut device, vec![insert(Kind::TableEntry(mac(1)))]).unwrap();
    let entities = [
        Some(Kind::TableEntry(entry(MAC, vec![], None))),
        Some(Kind::TableEntry(entry(9, vec![], None))),
        None,
        Some(Kind::MeterEntry(p4::MeterEntry {
            meter_id: 0x1400_0001,
            ..Default::default()
        })),
        Some(Kind::DirectCounterEntry(p4::DirectCounterEntry {
            table_entry: Some(mac(7)),
            data: None,
        })),
        Some(Kind::CounterEntry(p4::CounterEntry {
            counter_id: 0x1200_0001,
            index: Some(p4::Index { index: 8 }),
            data: None,
        })),
    ];
    let (messages, end) = device.handle_read(&p4::ReadRequest {
        device_id: 1,
        entities: entities
            .into_iter()
            .map(|entity| p4::Entity { entity })
            .collect(),
        ..Default::default()
    });
    let found: usize = messages.iter().map(|message| message.entities.len()).sum();
    assert_eq!(found, 1 + 4);
    let (ok, wrong) = (Code::Ok, Code::InvalidArgument);
    assert_eq!(
        codes(end),
        [ok, wrong, wrong, ok, Code::NotFound, Code::OutOfRange]
    );
}

#[test]
fn lists_are_read_as_lists_and_leave_nothing_behind() {
    let mut device = device();
    let with =
        |weights: &[i32]| Kind::TableEntry(entry(ECMP, vec![exact(1, &[1])], one_shot(weights)));
    let rows = |device: &mut thalweg_control::Device<_>| {
        let model: &mut thalweg_control::model::Model = device.target_mut();
        let rows = model.rows(Side::Running);
        (rows.members.len(), rows.groups.len())
    };
    write(&mut device, vec![insert(with(&[1, 3]))]).unwrap();
    assert_eq!(rows(&mut device), (2, 1));
    let found = read(&mut device, Kind::TableEntry(entry(ECMP, vec![], None)));
    assert_eq!(found, [with(&[1, 3])]);
    assert!(read(&mut device, Kind::ActionProfileMember(Default::default())).is_empty());
    // A controller's member beside a list: only one of the two ways is allowed.
    let outcome = write(&mut device, vec![insert(member(SELECTOR, 1, 1))]);
    assert_eq!(codes(outcome), [Code::InvalidArgument]);
    write(&mut device, vec![modify(with(&[1, 1, 1]))]).unwrap();
    assert_eq!(rows(&mut device), (3, 1));
    // Larger than the program allows a group to be.
    let outcome = write(&mut device, vec![modify(with(&[3, 3]))]);
    assert_eq!(codes(outcome), [Code::InvalidArgument]);
    assert_eq!(rows(&mut device), (3, 1));
    write(&mut device, vec![delete(with(&[]))]).unwrap();
    assert_eq!(rows(&mut device), (0, 0));
    write(&mut device, vec![insert(member(SELECTOR, 1, 1))]).unwrap();
}

#[test]
fn a_default_entry_is_reset_to_the_programs() {
    let mut device = device();
    let default = |action| p4::TableEntry {
        is_default_action: true,
        ..entry(MAC, vec![], action)
    };
    let read_default = |device: &mut _| read(device, Kind::TableEntry(default(None)));
    let program = vec![Kind::TableEntry(default(does(plain(NO_ACTION))))];
    assert_eq!(read_default(&mut device), program);
    let own = Kind::TableEntry(default(does(plain(DROP))));
    write(&mut device, vec![modify(own.clone())]).unwrap();
    assert_eq!(read_default(&mut device), [own]);
    write(&mut device, vec![modify(Kind::TableEntry(default(None)))]).unwrap();
    assert_eq!(read_default(&mut device), program);
}

/// The result of setting a pipeline.
fn set(
    device: &mut Device<Model>,
    action: Action,
    config: Option<p4::ForwardingPipelineConfig>,
) -> Result<(), Code> {
    let outcome = device.handle_set_pipeline(&pipeline_request(action, config), at(0));
    outcome.map_err(|failure| match failure {
        Failure::Call(problem) => problem.code,
        Failure::Parts(_) => panic!("a pipeline has no parts"),
    })
}

fn macs(device: &mut Device<Model>) -> Vec<EntryKey> {
    let rows = device.target_mut().rows(Side::Running);
    let entries = rows.entries.keys().filter(|(table, _)| *table == MAC);
    entries.map(|(_, key)| key.clone()).collect()
}

#[test]
fn pipelines_are_verified_saved_committed_and_reconciled() {
    let mut device = bare_device();
    let broken = || {
        let mut config = config();
        config.p4_device_config = bytes::Bytes::from_static(b"no JSON");
        Some(config)
    };
    let (invalid, missing) = (Err(Code::InvalidArgument), Err(Code::NotFound));
    assert_eq!(
        set(&mut device, Action::Unspecified, Some(config())),
        invalid
    );
    for action in [
        Action::Verify,
        Action::VerifyAndSave,
        Action::VerifyAndCommit,
    ] {
        assert_eq!(set(&mut device, action, None), invalid);
        assert_eq!(set(&mut device, action, broken()), invalid);
        let mut empty = config();
        empty.p4info = None;
        assert_eq!(set(&mut device, action, Some(empty)), invalid);
    }
    assert_eq!(set(&mut device, Action::Commit, None), missing);
    assert_eq!(set(&mut device, Action::Verify, Some(config())), Ok(()));
    assert!(write(&mut device, vec![]).is_err(), "nothing was committed");
    assert_eq!(
        set(&mut device, Action::VerifyAndCommit, Some(config())),
        Ok(())
    );
    write(&mut device, vec![insert(Kind::TableEntry(mac(1)))]).unwrap();

    // Packets do not see writes to a saved pipeline before it is committed.
    assert_eq!(
        set(&mut device, Action::VerifyAndSave, Some(config())),
        Ok(())
    );
    write(&mut device, vec![insert(Kind::TableEntry(mac(2)))]).unwrap();
    let first = macs(&mut device);
    assert_eq!(first.len(), 1);
    assert_eq!(set(&mut device, Action::Commit, Some(config())), invalid);
    assert_eq!(set(&mut device, Action::Commit, None), Ok(()));
    let second = macs(&mut device);
    assert_eq!(second.len(), 1);
    assert_ne!(first, second);
    assert_eq!(set(&mut device, Action::Commit, None), missing);
}

#[test]
fn a_program_that_is_reconciled_has_what_the_other_had() {
    let mut device = device();
    write(&mut device, vec![insert(Kind::TableEntry(mac(2)))]).unwrap();
    // Everything is kept, including counters.
    let invalid = Err(Code::InvalidArgument);
    let everything = vec![
        modify(Kind::TableEntry(counted(mac(2)))),
        insert(member(SELECTOR, 1, 1)),
        insert(group(SELECTOR, 1, &[(1, 2)])),
        insert(Kind::TableEntry(entry(
            ECMP,
            vec![exact(1, &[1])],
            group_id(1),
        ))),
        insert(Kind::DigestEntry(p4::DigestEntry {
            digest_id: DIGEST,
            config: Some(Default::default()),
        })),
    ];
    write(&mut device, everything).unwrap();
    device.target_mut().rows_mut().counters.insert(
        (0x1200_0001, 3),
        Count {
            bytes: 7,
            packets: 1,
        },
    );
    let before = read_all(&mut device);
    let mut next = config();
    next.cookie = None;
    assert_eq!(
        set(&mut device, Action::ReconcileAndCommit, Some(next)),
        Ok(())
    );
    assert_eq!(read_all(&mut device), before);
    // A program that cannot take it all leaves the running one unchanged.
    let mut smaller = config();
    let p4info = smaller.p4info.as_mut().unwrap();
    p4info
        .tables
        .retain(|table| table.preamble.as_ref().unwrap().id != ECMP);
    p4info
        .action_profiles
        .retain(|profile| profile.preamble.as_ref().unwrap().id != SELECTOR);
    assert_eq!(
        set(&mut device, Action::ReconcileAndCommit, Some(smaller)),
        invalid
    );
    assert_eq!(read_all(&mut device), before);
    // Committing a program clears everything.
    assert_eq!(
        set(&mut device, Action::VerifyAndCommit, Some(config())),
        Ok(())
    );
    assert!(macs(&mut device).is_empty());
}

#[test]
fn a_pipeline_is_read_in_parts() {
    let get = {
        let device = device();
        move |kind: ResponseType| {
            let answer = device.handle_get_pipeline(&p4::GetForwardingPipelineConfigRequest {
                device_id: 1,
                response_type: kind as i32,
            });
            let config = answer.unwrap().config.unwrap();
            assert_eq!(config.cookie.unwrap().cookie, 42);
            (config.p4info.is_some(), !config.p4_device_config.is_empty())
        }
    };
    assert_eq!(get(ResponseType::All), (true, true));
    assert_eq!(get(ResponseType::CookieOnly), (false, false));
    assert_eq!(get(ResponseType::P4infoAndCookie), (true, false));
    assert_eq!(get(ResponseType::DeviceConfigAndCookie), (false, true));
    let answer = bare_device().handle_get_pipeline(&p4::GetForwardingPipelineConfigRequest {
        device_id: 1,
        response_type: 0,
    });
    assert_eq!(answer.unwrap().config, None);
}

#[test]
fn packets_pass_between_program_and_primary() {
    let mut device = device();
    let metadata = |numbers: [u8; 2]| {
        let numbers = numbers.iter().zip(1..);
        let metadata = numbers.map(|(number, metadata_id)| p4::PacketMetadata {
            metadata_id,
            value: vec![*number].into(),
        });
        metadata.collect::<Vec<_>>()
    };
    let out = |metadata| p4::StreamMessageRequest {
        update: Some(p4::stream_message_request::Update::Packet(p4::PacketOut {
            payload: bytes::Bytes::from_static(b"hello"),
            metadata,
        })),
    };
    device.handle_message(PRIMARY, &out(metadata([5, 0])));
    assert_eq!(device.target_mut().injected, [b"\x02\x80hello"]);
    assert!(drain(&mut device).is_empty());
    device.handle_packet(&bytes::Bytes::from_static(b"\x02\x80world"));
    match &drain(&mut device)[..] {
        [(PRIMARY, StreamEvent::Message(message))] => match &message.update {
            Some(Response::Packet(packet)) => {
                assert_eq!(&packet.payload[..], b"world");
                assert_eq!(packet.metadata, metadata([5, 0]));
            }
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
    // A backup may not send; metadata must match the program.
    let backup = StreamId(2);
    device.handle_message(backup, &arbitration(1, "", Some(0)));
    drain(&mut device);
    for (stream, message, code) in [
        (backup, out(metadata([5, 0])), Code::PermissionDenied),
        (PRIMARY, out(vec![]), Code::InvalidArgument),
    ] {
        device.handle_message(stream, &message);
        match &drain(&mut device)[..] {
            [(to, StreamEvent::Message(message))] if *to == stream => match &message.update {
                Some(Response::Error(error)) => assert_eq!(error.canonical_code, code as i32),
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }
    device.handle_packet(&bytes::Bytes::from_static(b"\x02"));
    device.handle_close(PRIMARY);
    drain(&mut device);
    device.handle_packet(&bytes::Bytes::from_static(b"\x02\x80world"));
    let counters = device.counters();
    assert_eq!(counters.short_packets, 1);
    assert_eq!(counters.packets_without_primary, 1);
    assert_eq!((counters.packets_in, counters.packets_out), (1, 1));
    assert_eq!(counters.refused_packets_out, 2);
    assert_eq!(device.target_mut().injected.len(), 1);
}

#[test]
fn digests_go_to_the_primary_until_they_are_acknowledged() {
    let mut device = device();
    let numbers = |mac: u64| vec![Value::from(mac), Value::from(3)];
    device.handle_digest(DIGEST, numbers(1), at(0));
    assert!(drain(&mut device).is_empty(), "nobody asked for it");
    let config = p4::digest_entry::Config {
        max_timeout_ns: 100,
        max_list_size: 2,
        ack_timeout_ns: 1_000,
    };
    let entry = Kind::DigestEntry(p4::DigestEntry {
        digest_id: DIGEST,
        config: Some(config),
    });
    write(&mut device, vec![insert(entry)]).unwrap();
    device.handle_digest(DIGEST, numbers(1), at(10));
    assert_eq!(device.poll_timeout(), Some(at(110)));
    device.handle_timeout(at(110));
    let list = match &drain(&mut device)[..] {
        [(PRIMARY, StreamEvent::Message(message))] => match &message.update {
            Some(Response::Digest(list)) => list.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    assert_eq!(
        (list.digest_id, list.data.len(), list.timestamp),
        (DIGEST, 1, 110)
    );
    device.handle_digest(DIGEST, numbers(1), at(120));
    device.handle_timeout(at(500));
    assert!(drain(&mut device).is_empty(), "it is not acknowledged");
    let ack = |digest_id| p4::StreamMessageRequest {
        update: Some(p4::stream_message_request::Update::DigestAck(
            p4::DigestListAck {
                digest_id,
                list_id: list.list_id,
            },
        )),
    };
    device.handle_message(PRIMARY, &ack(7));
    assert!(
        matches!(&drain(&mut device)[..], [(PRIMARY, StreamEvent::Message(message))]
        if matches!(&message.update, Some(Response::Error(error)) if error.canonical_code == 3))
    );
    device.handle_message(PRIMARY, &ack(DIGEST));
    device.handle_digest(DIGEST, numbers(1), at(510));
    device.handle_digest(DIGEST, numbers(2), at(511));
    assert_eq!(drain(&mut device).len(), 1, "a full list");
}

#[test]
fn idle_entries_are_told_once_a_time_out() {
    let mut device = device();
    let mut idle = mac(1);
    idle.idle_timeout_ns = 1_000;
    write(&mut device, vec![insert(Kind::TableEntry(idle.clone()))]).unwrap();
    let rows = device.target_mut().rows_mut();
    let row = rows
        .entries
        .keys()
        .find(|(table, _)| *table == MAC)
        .cloned()
        .unwrap();
    assert_eq!(device.poll_timeout(), Some(at(1_000)));
    // It was hit 400 ns ago, so it is checked again 600 ns later.
    device
        .target_mut()
        .rows_mut()
        .idle_ns
        .insert(row.clone(), 400);
    device.handle_timeout(at(1_000));
    assert!(drain(&mut device).is_empty());
    assert_eq!(device.poll_timeout(), Some(at(1_600)));
    for time in [1_600, 2_600] {
        device
            .target_mut()
            .rows_mut()
            .idle_ns
            .insert(row.clone(), 1_000);
        device.handle_timeout(at(time));
        match &drain(&mut device)[..] {
            [(PRIMARY, StreamEvent::Message(message))] => match &message.update {
                Some(Response::IdleTimeoutNotification(notification)) => {
                    let mut expected = idle.clone();
                    expected.action = None;
                    assert_eq!(notification.table_entry, [expected]);
                }
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
        assert_eq!(
            device.poll_timeout(),
            Some(at(time) + Duration::from_nanos(1_000))
        );
    }
    let mut asked = entry(MAC, vec![], None);
    asked.time_since_last_hit = Some(Default::default());
    match &read(&mut device, Kind::TableEntry(asked))[..] {
        [Kind::TableEntry(entry)] => {
            assert_eq!(entry.time_since_last_hit.unwrap().elapsed_ns, 1_000);
        }
        other => panic!("{other:?}"),
    }
    write(&mut device, vec![delete(Kind::TableEntry(mac(1)))]).unwrap();
    device.handle_timeout(at(9_000));
    assert!(drain(&mut device).is_empty());
    assert_eq!(device.poll_timeout(), None);
}

#[test]
fn whole_arrays_are_written_and_read() {
    let mut device = device();
    let counter = |index, packet_count| p4::CounterEntry {
        counter_id: 0x1200_0001,
        index,
        data: Some(p4::CounterData {
            packet_count,
            byte_count: 0,
        }),
    };
    let index = |index| Some(p4::Index { index });
    let all = modify(Kind::CounterEntry(counter(None, 5)));
    let one = modify(Kind::CounterEntry(counter(index(2), 9)));
    write(&mut device, vec![all, one]).unwrap();
    let asked = p4::CounterEntry {
        counter_id: 0x1200_0001,
        ..Default::default()
    };
    let found = read(&mut device, Kind::CounterEntry(asked));
    let expected = (0..8)
        .map(|place| Kind::CounterEntry(counter(index(place), if place == 2 { 9 } else { 5 })));
    assert_eq!(found, expected.collect::<Vec<_>>());
    let config = p4::MeterConfig {
        cir: 1,
        cburst: 1,
        pir: 1,
        pburst: 1,
        eburst: 0,
    };
    let meter = |index, config| p4::MeterEntry {
        meter_id: 0x1400_0001,
        index,
        config,
        counter_data: None,
    };
    let updates = [meter(None, Some(config)), meter(index(1), None)];
    write(
        &mut device,
        updates
            .into_iter()
            .map(Kind::MeterEntry)
            .map(modify)
            .collect(),
    )
    .unwrap();
    let found = read(&mut device, Kind::MeterEntry(meter(None, None)));
    let expected = (0..4)
        .map(|place| Kind::MeterEntry(meter(index(place), Some(config).filter(|_| place != 1))));
    assert_eq!(found, expected.collect::<Vec<_>>());
    assert_eq!(device.target_mut().rows(Side::Running).meters.len(), 3);
    let direct = device
        .target_mut()
        .rows(Side::Running)
        .direct_counters
        .keys();
    assert!(
        direct
            .into_iter()
            .all(|(_, entry)| *entry != EntryRef::Default)
    );
}
