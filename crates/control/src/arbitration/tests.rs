//! Tests arbitration by tables: messages of streams, and the answers to all streams.

use super::*;

/// A stream announces an election id for a role, or ends.
#[derive(Clone, Copy)]
enum Step {
    Says(u64, &'static str, Option<u128>),
    Ends(u64),
}

use Step::{Ends, Says};

/// An answer: the stream, its status code, and the greatest election id.
type Heard = Vec<(u64, Code, Option<u128>)>;

const OK: Code = Code::Ok;
const BACKUP: Code = Code::AlreadyExists;
const NOBODY: Code = Code::NotFound;

fn update(device_id: u64, role: &str, election: Option<u128>) -> p4::MasterArbitrationUpdate {
    p4::MasterArbitrationUpdate {
        device_id,
        role: (!role.is_empty()).then(|| p4::Role {
            name: role.to_owned(),
            ..p4::Role::default()
        }),
        election_id: election.map(uint),
        status: None,
    }
}

fn uint(id: u128) -> p4::Uint128 {
    p4::Uint128 {
        high: (id >> 64) as u64,
        low: id as u64,
    }
}

fn heard(advice: Advice) -> Heard {
    let heard = advice.iter().map(|(stream, update)| {
        assert_eq!(update.device_id, 1);
        let code = update.status.as_ref().map_or(-1, |status| status.code);
        let greatest = update.election_id.as_ref().map(election_id);
        (stream.0, Code::from_i32(code), greatest)
    });
    heard.collect()
}

fn play(steps: &[(Step, Result<Heard, Code>)]) -> Arbitration {
    let mut arbitration = Arbitration::new(1, 3);
    for (index, (step, expected)) in steps.iter().enumerate() {
        let outcome = match *step {
            Says(stream, role, election) => {
                arbitration.handle_update(StreamId(stream), &update(1, role, election))
            }
            Ends(stream) => Ok(arbitration.handle_close(StreamId(stream))),
        };
        let outcome = outcome.map(heard).map_err(|problem| problem.code);
        assert_eq!(&outcome, expected, "step {index}");
    }
    arbitration
}

#[test]
fn the_greatest_ever_seen_is_primary() {
    let great = 1 << 100;
    let arbitration = play(&[
        // A stream without an id is a backup and never becomes primary.
        (Says(1, "", None), Ok(vec![(1, NOBODY, None)])),
        (
            Says(2, "", Some(0)),
            Ok(vec![(1, BACKUP, Some(0)), (2, OK, Some(0))]),
        ),
        (
            Says(3, "", Some(great)),
            Ok(vec![
                (1, BACKUP, Some(great)),
                (2, BACKUP, Some(great)),
                (3, OK, Some(great)),
            ]),
        ),
        // A smaller id makes a backup; nothing else changes.
        (Says(2, "", Some(5)), Ok(vec![(2, BACKUP, Some(great))])),
        // The primary goes: no stream is primary, whatever their ids.
        (
            Ends(3),
            Ok(vec![(1, NOBODY, Some(great)), (2, NOBODY, Some(great))]),
        ),
        (
            Says(2, "", Some(great - 1)),
            Ok(vec![(2, NOBODY, Some(great))]),
        ),
        // The greatest id may come back.
        (
            Says(2, "", Some(great)),
            Ok(vec![(1, BACKUP, Some(great)), (2, OK, Some(great))]),
        ),
    ]);
    let default = RoleName::default();
    assert!(arbitration.is_primary(StreamId(2)));
    assert!(
        arbitration
            .check_primary(&default, Some(&uint(great)))
            .is_ok()
    );
    for wrong in [None, Some(uint(great - 1)), Some(uint(0))] {
        let problem = arbitration
            .check_primary(&default, wrong.as_ref())
            .unwrap_err();
        assert_eq!(problem.code, Code::PermissionDenied);
    }
}

#[test]
fn a_primary_steps_down() {
    play(&[
        (Says(1, "", Some(9)), Ok(vec![(1, OK, Some(9))])),
        (Says(2, "", Some(8)), Ok(vec![(2, BACKUP, Some(9))])),
        (
            Says(1, "", Some(7)),
            Ok(vec![(1, NOBODY, Some(9)), (2, NOBODY, Some(9))]),
        ),
        (Says(2, "", Some(8)), Ok(vec![(2, NOBODY, Some(9))])),
        (
            Says(2, "", Some(10)),
            Ok(vec![(1, BACKUP, Some(10)), (2, OK, Some(10))]),
        ),
        // The same once more: all are told again.
        (
            Says(2, "", Some(10)),
            Ok(vec![(1, BACKUP, Some(10)), (2, OK, Some(10))]),
        ),
        (
            Says(2, "", None),
            Ok(vec![(1, NOBODY, Some(10)), (2, NOBODY, Some(10))]),
        ),
    ]);
}

#[test]
fn roles_do_not_meet() {
    let arbitration = play(&[
        (Says(1, "", Some(5)), Ok(vec![(1, OK, Some(5))])),
        (Says(2, "acl", Some(5)), Ok(vec![(2, OK, Some(5))])),
        (
            Says(3, "acl", Some(6)),
            Ok(vec![(2, BACKUP, Some(6)), (3, OK, Some(6))]),
        ),
        (Ends(1), Ok(vec![])),
        (Ends(3), Ok(vec![(2, NOBODY, Some(6))])),
    ]);
    assert_eq!(arbitration.primaries().count(), 0);
    let unknown = RoleName::new("nat", 0);
    let problem = arbitration
        .check_primary(&unknown, Some(&uint(5)))
        .unwrap_err();
    assert_eq!(problem.code, Code::NotFound);
}

#[test]
fn what_is_refused_changes_nothing() {
    let mut arbitration = play(&[
        (Says(1, "", Some(5)), Ok(vec![(1, OK, Some(5))])),
        (Says(2, "", Some(4)), Ok(vec![(2, BACKUP, Some(5))])),
        // The id is taken, for a new stream and for a live one.
        (Says(3, "", Some(5)), Err(Code::InvalidArgument)),
        (Says(3, "", Some(4)), Err(Code::InvalidArgument)),
        (Says(2, "", Some(5)), Err(Code::InvalidArgument)),
        (Says(1, "acl", Some(5)), Err(Code::FailedPrecondition)),
        (Says(3, "", Some(3)), Ok(vec![(3, BACKUP, Some(5))])),
        (Says(4, "", Some(2)), Err(Code::ResourceExhausted)),
        // The same stream may set its own id again.
        (
            Says(1, "", Some(5)),
            Ok(vec![
                (2, BACKUP, Some(5)),
                (3, BACKUP, Some(5)),
                (1, OK, Some(5)),
            ]),
        ),
    ]);
    let code = |arbitration: &mut Arbitration, stream, message| {
        let outcome = arbitration.handle_update(StreamId(stream), &message);
        outcome.map(heard).unwrap_err().code
    };
    let other = update(2, "", Some(50));
    assert_eq!(code(&mut arbitration, 9, other.clone()), Code::NotFound);
    assert_eq!(code(&mut arbitration, 2, other), Code::FailedPrecondition);
    let mut configured = update(1, "new", Some(50));
    if let Some(role) = &mut configured.role {
        role.config = Some(prost_types::Any::default());
    }
    assert_eq!(code(&mut arbitration, 9, configured), Code::InvalidArgument);
    assert!(arbitration.is_primary(StreamId(1)));
    assert_eq!(arbitration.streams.len(), 3);
    assert_eq!(arbitration.roles.len(), 1);
}
