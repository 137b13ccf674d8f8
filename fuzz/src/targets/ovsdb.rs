//! Bytes of a hostile database server, into a client.
//!
//! The first byte is the size of the pieces in which the rest comes.
//!
//! 1. No bytes make a client panic.
//! 2. What happens does not depend on the pieces.
//! 3. A client closes its connection once, and says why.
//! 4. Every transaction that was accepted has one outcome, once the connection is closed.

use std::time::Duration;

use thalweg_ovsdb::open_vswitch::{TABLES, bridge, port, root};
use thalweg_ovsdb::{
    DatabaseClient, DatabaseConfig, DatabaseEvent, DatabaseTransaction, LinkStep, TableIndex,
};

const NOW: Duration = Duration::ZERO;

/// Runs one input.
pub fn run(input: &[u8]) {
    let [size, stream @ ..] = input else {
        return;
    };
    let events = hear(stream, stream.len().max(1));
    assert_eq!(hear(stream, usize::from(*size) + 1), events);
    let count =
        |is_this: fn(&DatabaseEvent) -> bool| events.iter().filter(|event| is_this(event)).count();
    assert_eq!(count(|event| *event == DatabaseEvent::Closed), 1);
}

/// What happens to a client of which the server sends these bytes and then closes.
fn hear(stream: &[u8], piece: usize) -> Vec<DatabaseEvent> {
    let config = DatabaseConfig::new("Open_vSwitch", TABLES);
    let mut client = DatabaseClient::new(config, NOW);
    client.lock("l");
    assert_eq!(client.poll_link(NOW), Some(LinkStep::Connect));
    client.handle_connected(NOW);
    let mut events = Vec::new();
    let mut accepted = 0;
    for bytes in stream.chunks(piece) {
        client.receive(bytes, NOW);
        while let Some(event) = client.next(NOW) {
            if let DatabaseEvent::Synced(_) | DatabaseEvent::Lock(true) = event {
                look(&client);
                accepted += usize::from(client.submit(&wanted(&client)).is_ok());
            }
            events.push(event);
        }
        client.tick(NOW);
    }
    client.handle_closed(NOW);
    events.extend(std::iter::from_fn(|| client.next(NOW)));
    look(&client);
    let is_finished = |event: &&DatabaseEvent| matches!(event, DatabaseEvent::Finished(..));
    assert_eq!(events.iter().filter(is_finished).count(), accepted);
    let is_fault = events
        .iter()
        .any(|event| matches!(event, DatabaseEvent::Fault(_)));
    let must_close = client.poll_link(NOW) == Some(LinkStep::Disconnect);
    assert!(!must_close || is_fault, "the reason is told");
    events
}

/// A transaction with the rows that are there.
fn wanted(client: &DatabaseClient) -> DatabaseTransaction {
    let mut transaction = DatabaseTransaction::new();
    let new = transaction.insert(port::TABLE);
    transaction.set_new(new, port::NAME, "p");
    for row in client.replica().rows(bridge::TABLE) {
        transaction.verify(row, bridge::NAME);
        transaction.set(row, bridge::PORTS, &[new.into()]);
    }
    for row in client.replica().rows(root::TABLE) {
        transaction.set(row, root::CUR_CFG, row.get(root::NEXT_CFG));
    }
    transaction
}

/// Reads all rows, and follows their references.
fn look(client: &DatabaseClient) {
    let replica = client.replica();
    let mut count = 0;
    for (index, table) in TABLES.iter().enumerate() {
        for row in replica.rows(TableIndex(index as u16)) {
            assert_eq!(row.data().len(), table.columns.len());
            count += 1;
        }
    }
    assert_eq!(count, replica.row_count());
    for row in replica.rows(bridge::TABLE) {
        let named = replica.named(bridge::TABLE, row.get(bridge::NAME));
        let named = named.expect("a row has its name");
        assert_eq!(named.get(bridge::NAME), row.get(bridge::NAME));
        for port in replica.follow(row, bridge::PORTS) {
            assert!(replica.row(port::TABLE, port.uuid).is_some());
        }
        let _ = row.get(bridge::OTHER_CONFIG).get("hwaddr");
        assert!(row.get(bridge::FLOOD_VLANS).is_sorted());
    }
}
