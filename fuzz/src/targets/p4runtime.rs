//! Messages of a P4Runtime client, on a session whose program uses every feature.
//!
//! The first byte chooses the message type; the rest is the message in protobuf's binary form.
//!
//! 1. No message makes a session panic, or makes its calls to the data plane wrong. The model
//!    checks that insertions are new, and that deleted and referenced items exist.
//! 2. A refused batch has a verdict for each update; an atomic batch has then done none of
//!    them.
//! 3. Entries read the same after they are written again as read.

use prost::Message;
use thalweg_control::model::Model;
use thalweg_control::proto::p4::v1 as p4;
use thalweg_control::proto::p4::v1::entity::Entity as Kind;
use thalweg_control::proto::p4::v1::write_request::Atomicity;
use thalweg_control::{Device, DeviceConfig, Failure, Side, StreamId, read_text};
use thalweg_packet::Instant;

const P4INFO: &str = include_str!("../../../crates/control/testdata/everything.p4info.txtpb");

/// Runs one input.
pub fn run(input: &[u8]) {
    let Some((kind, bytes)) = input.split_first() else {
        return;
    };
    let mut device = device();
    match kind % 4 {
        0 => {
            if let Ok(request) = p4::WriteRequest::decode(bytes) {
                write(&mut device, request);
            }
        }
        1 => {
            if let Ok(request) = p4::ReadRequest::decode(bytes) {
                let count = request.entities.len();
                let (_, end) = device.handle_read(&request);
                if let Err(Failure::Parts(verdicts)) = end {
                    assert_eq!(verdicts.len(), count, "a verdict for each request");
                }
            }
        }
        2 => {
            if let Ok(message) = p4::StreamMessageRequest::decode(bytes) {
                device.handle_message(StreamId(1), &message);
                device.handle_message(StreamId(2), &message);
                device.handle_timeout(Instant::from_nanos(u64::MAX));
                while device.poll_transmit().is_some() {}
            }
        }
        _ => {
            if let Ok(request) = p4::SetForwardingPipelineConfigRequest::decode(bytes) {
                let _ = device.handle_set_pipeline(&request, Instant::ZERO);
            }
        }
    }
}

/// A device whose primary controller has election id 1.
fn device() -> Device<Model> {
    let mut device = Device::new(DeviceConfig::default(), Model::default());
    let update = p4::MasterArbitrationUpdate {
        device_id: 1,
        election_id: Some(p4::Uint128 { high: 0, low: 1 }),
        ..Default::default()
    };
    let message = p4::StreamMessageRequest {
        update: Some(p4::stream_message_request::Update::Arbitration(update)),
    };
    device.handle_message(StreamId(1), &message);
    let config = p4::ForwardingPipelineConfig {
        p4info: Some(read_text(P4INFO).expect("it is P4Info")),
        p4_device_config: b"{}".to_vec().into(),
        cookie: None,
    };
    let started = device.start_with(&config, Instant::ZERO);
    started.expect("a model runs everything");
    device
}

fn write(device: &mut Device<Model>, request: p4::WriteRequest) {
    let before = device.target_mut().rows(Side::Running).clone();
    let is_whole = request.atomicity() != Atomicity::ContinueOnError;
    match device.handle_write(&request, Instant::ZERO) {
        Ok(()) => {}
        Err(Failure::Call(_)) => {
            assert_eq!(device.target_mut().rows(Side::Running), &before);
        }
        Err(Failure::Parts(verdicts)) => {
            assert_eq!(
                verdicts.len(),
                request.updates.len(),
                "a verdict for each update"
            );
            assert!(verdicts.iter().any(Result::is_err), "something was refused");
            if is_whole {
                assert!(verdicts.iter().all(Result::is_err), "nothing was done");
                assert_eq!(device.target_mut().rows(Side::Running), &before);
            }
        }
    }
    device.handle_timeout(Instant::from_nanos(u64::MAX));
    // Invariant 3: entries can be written as they were read.
    let asked = p4::ReadRequest {
        device_id: 1,
        entities: vec![p4::Entity {
            entity: Some(Kind::TableEntry(p4::TableEntry::default())),
        }],
        ..Default::default()
    };
    let (messages, end) = device.handle_read(&asked);
    assert!(end.is_ok(), "{end:?}");
    let entities = messages.iter().flat_map(|message| &message.entities);
    let updates = entities.map(|entity| p4::Update {
        r#type: p4::update::Type::Modify as i32,
        entity: Some(entity.clone()),
    });
    let again = p4::WriteRequest {
        device_id: 1,
        election_id: Some(p4::Uint128 { high: 0, low: 1 }),
        updates: updates.collect(),
        ..Default::default()
    };
    let outcome = device.handle_write(&again, Instant::ZERO);
    assert_eq!(outcome, Ok(()), "entries are written as they were read");
    assert_eq!(device.handle_read(&asked).0, messages);
}
