//! The real `ovsdb-server` and `ovs-vsctl`: the replica equals what `ovsdb-client dump` says.
//! Needs Open vSwitch's programs, no privileges.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use thalweg_ovsdb::open_vswitch::{TABLES, bridge, interface, port, root};
use thalweg_ovsdb::{
    Atom, DatabaseClient, DatabaseConfig, DatabaseEvent, DatabaseTransaction, Datum, LinkStep,
    RowChange, SubmitError, TableIndex, TransactionOutcome, Uuid,
};

const SCHEMA: &str = "/usr/share/openvswitch/vswitch.ovsschema";
/// A wait that ends in an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server with its files in a folder.
struct Server {
    folder: TempDir,
    child: Option<Child>,
}

fn run(program: &str, arguments: &[&str], folder: &Path) -> String {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .env("OVS_RUNDIR", folder)
        .env("OVS_LOGDIR", folder);
    let output = command
        .output()
        .expect("the program of Open vSwitch is installed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("it is text")
}

impl Server {
    fn new() -> Server {
        Server::of(&["create", "conf.db", SCHEMA])
    }

    /// A server of a cluster of one, which keeps a history of its transactions.
    fn with_history() -> Server {
        Server::of(&["create-cluster", "conf.db", SCHEMA, "unix:raft"])
    }

    fn of(create: &[&str]) -> Server {
        let folder = tempfile::tempdir().expect("a folder");
        run("ovsdb-tool", create, folder.path());
        let mut server = Server {
            folder,
            child: None,
        };
        server.start();
        server.vsctl(&["init"]);
        server
    }

    fn start(&mut self) {
        let path = self.folder.path();
        let remote = format!("--remote=p{}", self.remote());
        let control = format!("--unixctl={}", path.join("ctl").display());
        let child = Command::new("ovsdb-server")
            .args(["--no-chdir", "-vconsole:off", &remote, &control])
            .arg(path.join("conf.db"))
            .current_dir(path)
            .env("OVS_RUNDIR", path)
            .stderr(Stdio::null())
            .spawn();
        self.child = Some(child.expect("ovsdb-server is installed"));
        let begin = Instant::now();
        while UnixStream::connect(path.join("db.sock")).is_err() {
            assert!(begin.elapsed() < PATIENCE, "the server does not listen");
            std::thread::yield_now();
        }
    }

    fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    fn remote(&self) -> String {
        format!("unix:{}", self.folder.path().join("db.sock").display())
    }

    fn vsctl(&self, arguments: &[&str]) {
        let database = format!("--db={}", self.remote());
        let mut all = vec!["--no-wait", "--timeout=20", &database];
        all.extend(arguments);
        run("ovs-vsctl", &all, self.folder.path());
    }

    /// The values of the columns that a replica has, by table and row.
    fn dump(&self) -> Tables {
        let remote = self.remote();
        let dump = ["-f", "json", "dump", &remote, "Open_vSwitch"];
        let text = run("ovsdb-client", &dump, self.folder.path());
        let mut tables = Tables::new();
        // One object for each table.
        for table in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            let table = table.expect("it is JSON");
            let caption = table["caption"].as_str().expect("a caption");
            let name = caption.trim_end_matches(" table");
            let Some(spec) = TABLES.iter().find(|spec| spec.name == name) else {
                continue;
            };
            let headings: Vec<&str> = list(&table["headings"]).filter_map(Value::as_str).collect();
            for row in list(&table["data"]) {
                let cells: BTreeMap<&str, &Value> =
                    headings.iter().copied().zip(list(row)).collect();
                let wanted = spec.columns.iter();
                let wanted = wanted.map(|column| canonical(cells[column.name])).collect();
                let uuid = cells["_uuid"][1].as_str().expect("a UUID");
                tables.insert((name.to_owned(), uuid.to_owned()), wanted);
            }
        }
        tables
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_some() {
            self.kill();
        }
    }
}

type Tables = BTreeMap<(String, String), Vec<BTreeSet<String>>>;

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A value's elements as texts, read without the crate that is tested.
fn canonical(value: &Value) -> BTreeSet<String> {
    match value.as_array().map(Vec::as_slice) {
        Some([Value::String(tag), elements]) if tag == "set" || tag == "map" => {
            list(elements).map(Value::to_string).collect()
        }
        _ => [value.to_string()].into(),
    }
}

fn of_datum(datum: &Datum) -> BTreeSet<String> {
    let pair =
        |(key, value): &(Atom, Atom)| Value::from(vec![key.to_json(), value.to_json()]).to_string();
    let atoms = datum.atoms().iter().map(|atom| atom.to_json().to_string());
    atoms.chain(datum.pairs().iter().map(pair)).collect()
}

/// The client with a socket and a clock.
struct Driver {
    client: DatabaseClient,
    path: std::path::PathBuf,
    socket: Option<UnixStream>,
    begin: Instant,
    /// Added to the clock: what the back-off waits.
    ahead: Duration,
    /// Methods that are refused in the server's place, as an older one does.
    unknown: &'static [&'static str],
}

impl Driver {
    fn new(server: &Server) -> Driver {
        let config = DatabaseConfig::new("Open_vSwitch", TABLES);
        Driver {
            client: DatabaseClient::new(config, Duration::ZERO),
            path: server.folder.path().join("db.sock"),
            socket: None,
            begin: Instant::now(),
            ahead: Duration::ZERO,
            unknown: &[],
        }
    }

    /// Runs until an event is the wanted one; returns all until then.
    fn until(&mut self, is_wanted: impl Fn(&DatabaseEvent) -> bool) -> Vec<DatabaseEvent> {
        let mut events = Vec::new();
        let begin = Instant::now();
        loop {
            assert!(
                begin.elapsed() < PATIENCE,
                "it does not happen; so far {events:?}"
            );
            let now = self.begin.elapsed() + self.ahead;
            self.client.tick(now);
            match self.client.poll_link(now) {
                Some(LinkStep::Connect) => match UnixStream::connect(&self.path) {
                    Ok(socket) => {
                        let timeout = Some(Duration::from_millis(5));
                        socket.set_read_timeout(timeout).expect("it is a socket");
                        self.socket = Some(socket);
                        self.client.handle_connected(now);
                    }
                    Err(_) => self.client.handle_closed(now),
                },
                Some(LinkStep::Disconnect) => self.socket = None,
                None if self.socket.is_none() => self.ahead += Duration::from_secs(1),
                None => {}
            }
            self.exchange(now);
            while let Some(event) = self.client.next(now) {
                let is_last = is_wanted(&event);
                events.push(event);
                if is_last {
                    return events;
                }
            }
        }
    }

    fn exchange(&mut self, now: Duration) {
        let Some(socket) = &mut self.socket else {
            return;
        };
        let mut is_open = true;
        while let Some(bytes) = self.client.take_output() {
            let request: Value = serde_json::from_slice(&bytes).expect("it is JSON");
            if self
                .unknown
                .iter()
                .any(|method| request["method"] == *method)
            {
                let error = json!({"id": request["id"], "error": "unknown method"});
                self.client.receive(error.to_string().as_bytes(), now);
                continue;
            }
            is_open &= socket.write_all(&bytes).is_ok();
        }
        let mut buffer = [0; 4096];
        match socket.read(&mut buffer) {
            Ok(0) => is_open = false,
            Ok(count) => self.client.receive(&buffer[..count], now),
            Err(error) => {
                is_open &= matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
            }
        }
        if !is_open {
            self.socket = None;
            self.client.handle_closed(now);
        }
    }

    fn sync(&mut self) -> Vec<RowChange> {
        let is_synced = |event: &DatabaseEvent| matches!(event, DatabaseEvent::Synced(_));
        match self.until(is_synced).pop() {
            Some(DatabaseEvent::Synced(changes)) => changes,
            other => panic!("{other:?}"),
        }
    }

    fn finish(&mut self, transaction: &DatabaseTransaction) -> TransactionOutcome {
        let id = self.client.submit(transaction).expect("it is taken");
        let is_done = |event: &DatabaseEvent| match event {
            DatabaseEvent::Finished(done, _) => *done == id,
            _ => false,
        };
        match self.until(is_done).pop() {
            Some(DatabaseEvent::Finished(_, outcome)) => outcome,
            other => panic!("{other:?}"),
        }
    }

    /// Follows until the server has answered a request that was sent after all changes.
    fn catch_up(&mut self) {
        let mut nothing = DatabaseTransaction::new();
        nothing.abort();
        assert_eq!(self.finish(&nothing), TransactionOutcome::Aborted);
    }

    fn dump(&self) -> Tables {
        let mut tables = Tables::new();
        for (at, spec) in TABLES.iter().enumerate() {
            for row in self.client.replica().rows(TableIndex(at as u16)) {
                let key = (spec.name.to_owned(), row.uuid.to_string());
                let data = row.data().iter().map(of_datum);
                tables.insert(key, data.collect());
            }
        }
        tables
    }
}

/// Numbers from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, count: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) as usize % count
    }
}

/// A transaction of `ovs-vsctl`: what operators and controllers do.
fn random_change(numbers: &mut Numbers) -> Vec<String> {
    // A port is always of the same bridge.
    let port = numbers.below(6);
    let (bridge, port) = (format!("br{}", port % 2), format!("p{port}"));
    let number = numbers.below(9) + 1;
    let text = match numbers.below(14) {
        0 => format!("--may-exist add-br {bridge}"),
        1 => format!("--if-exists del-br {bridge}"),
        2..=4 => format!("--may-exist add-br {bridge} -- --may-exist add-port {bridge} {port}"),
        5 => format!("--if-exists del-port {port}"),
        6 => format!("--if-exists set Port {port} tag={number} trunks={number},14,17"),
        7 => format!("--if-exists clear Port {port} tag trunks"),
        8 => format!("--if-exists set Interface {port} type=internal options:k{number}=v"),
        9 => format!("--if-exists remove Interface {port} options k{number}"),
        10 => format!("--if-exists set Interface {port} ofport_request={number}"),
        11 => format!(
            "--may-exist add-br {bridge} -- set-controller {bridge} tcp:127.0.0.1:{number} \
             -- set Bridge {bridge} fail_mode=secure other_config:hwaddr=0{number}"
        ),
        12 => format!("set Open_vSwitch . other_config:max-idle={number}"),
        _ => format!(
            "--may-exist add-br {bridge} -- --may-exist add-port {bridge} {port} \
             -- --id=@m create Mirror name=m{number} select_all=true \
             -- set Bridge {bridge} mirrors=@m"
        ),
    };
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_replica_is_what_the_server_has() {
    follow(&[], 20_261_126);
}

#[test]
fn so_it_is_with_a_server_that_keeps_no_history() {
    follow(&["monitor_cond_since"], 1);
}

#[test]
fn so_it_is_with_a_server_of_the_standard_alone() {
    follow(
        &["monitor_cond_since", "monitor_cond", "set_db_change_aware"],
        2,
    );
}

/// Random transactions and restarts of a server that does not know some methods.
fn follow(unknown: &'static [&'static str], seed: u64) {
    let mut server = Server::new();
    let mut driver = Driver::new(&server);
    driver.unknown = unknown;
    let schema = driver
        .until(|event| matches!(event, DatabaseEvent::Schema(_)))
        .pop();
    let Some(DatabaseEvent::Schema(report)) = schema else {
        panic!("{schema:?}");
    };
    assert!(report.missing_tables.is_empty(), "{report:?}");
    assert!(report.missing_columns.is_empty(), "{report:?}");
    driver.sync();
    assert_eq!(driver.dump(), server.dump());
    let mut numbers = Numbers(seed);
    for round in 0..60 {
        let change = random_change(&mut numbers);
        let change: Vec<&str> = change.iter().map(String::as_str).collect();
        let is_down = round % 15 == 14;
        server.vsctl(&change);
        if is_down {
            // What happens while the client is away is told as a difference, and no more.
            driver.catch_up();
            server.kill();
            driver.until(|event| matches!(event, DatabaseEvent::Closed));
            server.start();
            let change = random_change(&mut numbers);
            let change: Vec<&str> = change.iter().map(String::as_str).collect();
            let before = driver.dump();
            server.vsctl(&change);
            let changes = driver.sync();
            let after = driver.dump();
            let keys = before.keys().chain(after.keys()).collect::<BTreeSet<_>>();
            let differing = keys
                .into_iter()
                .filter(|key| before.get(*key) != after.get(*key));
            assert_eq!(changes.len(), differing.count(), "{change:?}");
        }
        driver.catch_up();
        assert_eq!(driver.dump(), server.dump(), "after {change:?}");
    }
    assert!(driver.client.replica().row_count() > 4);
    assert!(driver.client.counters().connections >= 5);
}

/// A row by its name; the change that made it has been followed.
fn row(driver: &Driver, table: TableIndex, name: &str) -> std::sync::Arc<thalweg_ovsdb::Row> {
    driver
        .client
        .replica()
        .named(table, name)
        .expect("it is there")
        .clone()
}

/// A server with a bridge and a port, and a client that holds the lock.
fn with_port() -> (Server, Driver) {
    let server = Server::new();
    server.vsctl(&["add-br", "br0", "--", "add-port", "br0", "p1"]);
    let mut driver = Driver::new(&server);
    driver.client.lock("ovs_vswitchd");
    driver.until(|event| matches!(event, DatabaseEvent::Lock(true)));
    driver.sync();
    (server, driver)
}

fn is_committed(outcome: &TransactionOutcome) -> bool {
    matches!(outcome, TransactionOutcome::Committed(_))
}

#[test]
fn a_transaction_is_in_the_replica_when_its_outcome_is_told() {
    let (server, mut driver) = with_port();
    let br0 = row(&driver, bridge::TABLE, "br0");
    let mut transaction = DatabaseTransaction::new();
    let new_interface = transaction.insert(interface::TABLE);
    transaction.set_new(new_interface, interface::NAME, "p2");
    let new_port = transaction.insert(port::TABLE);
    transaction.set_new(new_port, port::NAME, "p2");
    transaction.set_new(new_port, port::INTERFACES, &[new_interface.into()]);
    transaction.add(&br0, bridge::PORTS, &[new_port.into()]);
    transaction.comment("a port \"p2\"");
    let TransactionOutcome::Committed(committed) = driver.finish(&transaction) else {
        panic!("it is right");
    };
    let p2 = row(&driver, port::TABLE, "p2");
    assert_eq!(p2.uuid, committed.uuid_of(new_port));
    let interfaces = driver.client.replica().follow(&p2, port::INTERFACES);
    let names: Vec<&str> = interfaces.map(|row| row.get(interface::NAME)).collect();
    assert_eq!(names, ["p2"]);
    assert_eq!(driver.dump(), server.dump());

    // A port that no bridge has is gone.
    let mut transaction = DatabaseTransaction::new();
    transaction.remove(&br0, bridge::PORTS, &[p2.uuid.into()]);
    let outcome = driver.finish(&transaction);
    assert!(is_committed(&outcome), "{outcome:?}");
    assert!(driver.client.replica().named(port::TABLE, "p2").is_none());
    assert_eq!(driver.dump(), server.dump());
}

#[test]
fn a_conflict_is_noticed_and_the_next_attempt_succeeds() {
    let (server, mut driver) = with_port();
    let attempt = |driver: &Driver| {
        let p1 = row(driver, port::TABLE, "p1");
        let vlan = p1
            .get(port::TAG)
            .map_or("none".to_owned(), |tag| tag.to_string());
        let mut transaction = DatabaseTransaction::new();
        transaction.verify(&p1, port::TAG);
        transaction.set(&p1, port::STATUS, &[("vlan", &*vlan)]);
        transaction.put(&p1, port::OTHER_CONFIG, "k", &vlan);
        transaction.take(&p1, port::OTHER_CONFIG, "old");
        let root_row = driver
            .client
            .replica()
            .rows(root::TABLE)
            .next()
            .expect("one");
        transaction.increment(root_row, root::CUR_CFG, 1);
        transaction
    };
    server.vsctl(&[
        "set",
        "Port",
        "p1",
        "other_config:k=a",
        "other_config:old=b",
    ]);
    driver.catch_up();
    let early = attempt(&driver);
    server.vsctl(&["set", "Port", "p1", "tag=7"]);
    assert_eq!(driver.finish(&early), TransactionOutcome::TryAgain);
    driver.catch_up();
    let outcome = driver.finish(&attempt(&driver));
    assert!(is_committed(&outcome), "{outcome:?}");
    let p1 = row(&driver, port::TABLE, "p1");
    assert_eq!(p1.get(port::STATUS).get("vlan"), Some("7"));
    let pairs: Vec<_> = p1.get(port::OTHER_CONFIG).iter().collect();
    assert_eq!(pairs, [("k", "7")]);
    let root_row = driver
        .client
        .replica()
        .rows(root::TABLE)
        .next()
        .expect("one");
    assert_eq!(root_row.get(root::CUR_CFG), 1);
    assert_eq!(driver.dump(), server.dump());
}

#[test]
fn what_the_server_refuses_is_told_with_its_reason() {
    let (server, mut driver) = with_port();
    let before = server.dump();
    let p1 = row(&driver, port::TABLE, "p1");
    let mut out_of_range = DatabaseTransaction::new();
    out_of_range.set(&p1, port::TAG, Some(5000));
    let mut dangling = DatabaseTransaction::new();
    dangling.set(&p1, port::INTERFACES, &[Uuid::from_u128(7).into()]);
    for (transaction, reason) in [
        (out_of_range, "constraint violation: "),
        (dangling, "referential integrity violation: "),
    ] {
        let outcome = driver.finish(&transaction);
        let TransactionOutcome::Failed(text) = &outcome else {
            panic!("{outcome:?}");
        };
        assert!(text.starts_with(reason), "{text}");
    }
    assert_eq!(server.dump(), before);
}

#[test]
fn a_server_with_a_history_tells_only_what_is_new() {
    let server = Server::with_history();
    // The server keeps no more history than rows: the last transaction is a small part of them.
    for bridge in ["br0", "br1", "br2", "br3"] {
        server.vsctl(&["add-br", bridge]);
    }
    server.vsctl(&["add-port", "br0", "p1"]);
    let mut driver = Driver::new(&server);
    driver.sync();
    driver.socket = None;
    driver.client.handle_closed(driver.begin.elapsed());
    server.vsctl(&["set", "Port", "p1", "tag=7", "--", "add-port", "br0", "p2"]);
    let changes = driver.sync();
    // The port and its interface, the bridge, and the tag.
    assert_eq!(changes.len(), 4, "{changes:?}");
    assert_eq!(driver.dump(), server.dump());
    let counters = driver.client.counters();
    assert_eq!(
        counters.resyncs, 1,
        "only the first connection sent all rows"
    );
}

#[test]
fn a_lock_has_one_holder() {
    let server = Server::new();
    let [mut first, mut second] = [(); 2].map(|()| Driver::new(&server));
    first.client.lock("ovs_vswitchd");
    first.until(|event| matches!(event, DatabaseEvent::Lock(true)));
    second.client.lock("ovs_vswitchd");
    second.sync();
    assert!(!second.client.has_lock());
    let mut transaction = DatabaseTransaction::new();
    transaction.insert(root::TABLE);
    assert_eq!(
        second.client.submit(&transaction),
        Err(SubmitError::NotLocked)
    );
    second.client.steal("ovs_vswitchd");
    second.until(|event| matches!(event, DatabaseEvent::Lock(true)));
    first.until(|event| matches!(event, DatabaseEvent::Lock(false)));
    second.client.unlock();
    second.until(|event| matches!(event, DatabaseEvent::Lock(false)));
    first.client.steal("ovs_vswitchd");
    first.until(|event| matches!(event, DatabaseEvent::Lock(true)));
}

#[test]
fn a_converted_database_is_followed_on() {
    let server = Server::new();
    server.vsctl(&["add-br", "br0"]);
    let mut driver = Driver::new(&server);
    driver.sync();
    // The same schema with another version and without a column.
    let schema = std::fs::read_to_string(SCHEMA).expect("it is installed");
    let mut schema: Value = serde_json::from_str(&schema).expect("it is JSON");
    schema["version"] = "8.3.0".into();
    schema.as_object_mut().expect("an object").remove("cksum");
    let columns = schema["tables"]["Port"]["columns"]
        .as_object_mut()
        .expect("columns");
    columns.remove("cvlans");
    let path = server.folder.path().join("older.ovsschema");
    std::fs::write(&path, schema.to_string()).expect("it is written");
    let arguments = ["convert", &server.remote(), path.to_str().expect("text")];
    run("ovsdb-client", &arguments, server.folder.path());
    let events = driver.until(|event| matches!(event, DatabaseEvent::Synced(_)));
    assert!(!events.contains(&DatabaseEvent::Closed), "{events:?}");
    let report = events.iter().find_map(|event| match event {
        DatabaseEvent::Schema(report) => Some(report),
        _ => None,
    });
    assert_eq!(report.expect("a schema").missing_columns, ["Port.cvlans"]);
    assert_eq!(events.last(), Some(&DatabaseEvent::Synced(Vec::new())));
    server.vsctl(&["add-port", "br0", "p1"]);
    driver.catch_up();
    assert!(driver.client.replica().named(port::TABLE, "p1").is_some());
}
