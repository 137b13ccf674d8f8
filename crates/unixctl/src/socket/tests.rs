use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::net::{bind, connect, listen, socket_with};
use tempfile::TempDir;

use super::*;
use crate::client::{ControlClient, ControlClientError};
use crate::conversation::ControlCommand;

/// A wait that ends in an error.
const PATIENCE: Duration = Duration::from_secs(60);

/// The end of that wait.
fn in_time() -> Option<Instant> {
    Some(Instant::now() + PATIENCE)
}

/// A control socket, and what its waker was called.
struct Fixture {
    folder: TempDir,
    socket: ControlSocket,
    woken: Receiver<()>,
}

impl Fixture {
    fn new() -> Fixture {
        Fixture::at("ctl", ControlConfig::OPEN_VSWITCH)
    }

    fn at(name: &str, config: ControlConfig) -> Fixture {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().expect("it has one")).expect("it is made");
        let (wake, woken) = channel();
        let waker: LoopWaker = Arc::new(move || wake.send(()).unwrap_or_default());
        let mut commands = ControlCommands::new("version 1");
        commands.add(&[ControlCommand::new("say", "text", 1, 1)]);
        let socket = ControlSocket::open(&path, config, commands, Arc::new(Notes), waker);
        let socket = socket.expect("it listens");
        Fixture {
            folder,
            socket,
            woken,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("ctl")
    }

    fn client(&self) -> Client {
        Client::at(&self.path())
    }

    /// The next command, once the waker says that there is one.
    fn command(&mut self) -> PendingCommand {
        self.woken.recv_timeout(PATIENCE).expect("it is woken");
        self.socket.next_command().expect("a command")
    }
}

/// Takes no notes.
struct Notes;

impl ControlNotes for Notes {
    fn note(&self, _: ControlNote<'_>) {}
}

struct Client(BufReader<UnixStream>);

impl Client {
    fn at(path: &Path) -> Client {
        let stream = UnixStream::connect(path).expect("it is served");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is set");
        Client(BufReader::new(stream))
    }

    fn ask(&mut self, method: &str, argument: Option<&str>) {
        let params: Vec<&str> = argument.into_iter().collect();
        let request = serde_json::json!({"id": 7, "method": method, "params": params});
        let sent = self.0.get_mut().write_all(request.to_string().as_bytes());
        sent.expect("it is read");
    }

    /// The reply's result and error.
    fn reply(&mut self) -> (serde_json::Value, serde_json::Value) {
        let stream = self.0.by_ref();
        let mut replies = serde_json::Deserializer::from_reader(stream).into_iter();
        let reply: serde_json::Value = replies.next().expect("a reply").expect("it is JSON");
        assert_eq!(reply["id"], 7);
        (reply["result"].clone(), reply["error"].clone())
    }

    fn text(&mut self) -> String {
        let (result, error) = self.reply();
        assert_eq!(error, serde_json::Value::Null);
        result.as_str().expect("a text").to_owned()
    }

    fn is_closed(&mut self) -> bool {
        matches!(self.0.fill_buf(), Ok([]))
    }
}

#[test]
fn commands_are_answered_now_or_later_and_in_any_order() {
    let mut fixture = Fixture::new();
    let mut clients = [fixture.client(), fixture.client()];
    clients[0].ask("say", Some("a"));
    let first = fixture.command();
    assert_eq!(first.request.arguments, ["a"]);
    clients[1].ask("say", Some("b"));
    let second = fixture.command();
    second.reply(Ok("B".to_owned()));
    assert_eq!(clients[1].text(), "B\n");
    first.reply(Err("A".to_owned()));
    assert_eq!(clients[0].reply(), (serde_json::Value::Null, "A\n".into()));
    // Commands that every server has do not reach the main loop.
    clients[0].ask("version", None);
    assert_eq!(clients[0].text(), "version 1\n");
    clients[0].ask("nothing", None);
    assert!(
        clients[0]
            .reply()
            .1
            .as_str()
            .unwrap()
            .contains("not a valid command")
    );
    assert!(fixture.socket.next_command().is_none());
}

#[test]
fn a_slow_client_holds_up_no_other() {
    let mut fixture = Fixture::new();
    let mut silent = fixture.client();
    // Half a request, and a reply that is not read.
    silent
        .0
        .get_mut()
        .write_all(b"{\"id\":7,\"meth")
        .expect("it is read");
    let mut full = fixture.client();
    full.ask("say", Some("much"));
    let long = "x".repeat(8 << 20);
    fixture.command().reply(Ok(long.clone()));
    let mut other = fixture.client();
    other.ask("say", Some("a"));
    fixture.command().reply(Ok("A".to_owned()));
    assert_eq!(other.text(), "A\n");
    assert_eq!(full.text(), long + "\n");
    let rest = b"od\":\"version\",\"params\":[]}";
    silent.0.get_mut().write_all(rest).expect("it is read");
    assert_eq!(silent.text(), "version 1\n");
}

#[test]
fn what_is_not_the_protocol_ends_the_connection() {
    let fixture = Fixture::new();
    for bytes in [
        &b"}"[..],
        b"{\"id\":null,\"method\":\"version\",\"params\":[]}",
        b"[]",
    ] {
        let mut client = fixture.client();
        client.0.get_mut().write_all(bytes).expect("it is read");
        assert!(client.is_closed(), "{bytes:?}");
    }
    let mut client = fixture.client();
    client.ask("version", None);
    assert_eq!(client.text(), "version 1\n");
}

#[test]
fn a_dropped_command_is_answered_with_an_error() {
    let mut fixture = Fixture::new();
    let mut client = fixture.client();
    client.ask("say", Some("a"));
    drop(fixture.command());
    let (_, error) = client.reply();
    assert_eq!(error.as_str(), Some(&*format!("{NO_ANSWER}\n")));
}

#[test]
fn at_the_end_answers_are_written_and_the_socket_is_gone() {
    let mut fixture = Fixture::new();
    let mut clients = [fixture.client(), fixture.client(), fixture.client()];
    clients[0].ask("say", Some("a"));
    let answered = fixture.command();
    clients[1].ask("say", Some("b"));
    fixture.woken.recv_timeout(PATIENCE).expect("it is woken");
    let path = fixture.path();
    answered.reply(Ok("A".to_owned()));
    drop(fixture.socket);
    assert!(!path.exists());
    assert_eq!(clients[0].text(), "A\n");
    assert_eq!(clients[1].reply().1, format!("{NO_ANSWER}\n"));
    assert!(clients.iter_mut().all(Client::is_closed));
}

#[test]
fn at_the_end_every_command_of_a_client_is_answered() {
    let mut fixture = Fixture::new();
    let mut client = fixture.client();
    let request = r#"{"id":7,"method":"say","params":["a"]}"#;
    let sent = client.0.get_mut().write_all(request.repeat(3).as_bytes());
    sent.expect("it is read");
    fixture.command().reply(Ok("A".to_owned()));
    fixture.woken.recv_timeout(PATIENCE).expect("it is woken");
    drop(fixture.socket);
    assert_eq!(client.text(), "A\n");
    for _ in 0..2 {
        assert_eq!(client.reply().1, format!("{NO_ANSWER}\n"));
    }
    assert!(client.is_closed());
}

#[test]
fn with_all_connections_taken_the_longest_silent_gives_way() {
    let mut fixture = Fixture::new();
    let mut clients: Vec<Client> = (0..ControlConfig::OPEN_VSWITCH.connections_max)
        .map(|_| fixture.client())
        .collect();
    // All have been accepted, and the first is the last to have spoken.
    for client in clients.iter_mut().rev() {
        client.ask("version", None);
        assert_eq!(client.text(), "version 1\n");
    }
    let mut one_more = fixture.client();
    one_more.ask("say", Some("a"));
    fixture.command().reply(Ok("A".to_owned()));
    assert_eq!(one_more.text(), "A\n");
    assert!(clients.pop().expect("the last").is_closed());
    for client in &mut clients[..2] {
        client.ask("version", None);
        assert_eq!(client.text(), "version 1\n");
    }
}

#[test]
fn the_sockets_file_is_the_owners_and_the_groups() {
    let fixture = Fixture::new();
    let mode = std::fs::metadata(fixture.path()).expect("it is there");
    assert_eq!(mode.permissions().mode() & 0o707, 0o700);
}

fn open(path: &Path) -> std::io::Result<ControlSocket> {
    let (config, commands) = (ControlConfig::OPEN_VSWITCH, ControlCommands::new("2"));
    ControlSocket::open(path, config, commands, Arc::new(Notes), Arc::new(|| ()))
}

/// A listening socket whose queue of clients is full.
fn busy(path: &Path) -> (OwnedFd, Vec<OwnedFd>) {
    let socket = || {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        socket.expect("a socket")
    };
    let address = SocketAddrUnix::new(path).expect("it is short");
    let listener = socket();
    bind(&listener, &address).expect("it is bound");
    listen(&listener, 0).expect("it listens");
    let mut clients = Vec::new();
    loop {
        let client = socket();
        match connect(&client, &address) {
            Ok(()) => clients.push(client),
            Err(error) => {
                assert_eq!(error, Errno::AGAIN);
                return (listener, clients);
            }
        }
    }
}

#[test]
fn a_socket_at_which_a_process_listens_is_not_replaced() {
    let fixture = Fixture::new();
    let path = fixture.path();
    let full = fixture.folder.path().join("full");
    let _busy = busy(&full);
    let datagrams = fixture.folder.path().join("datagrams");
    let _datagrams = UnixDatagram::bind(&datagrams).expect("it is bound");
    for path in [&path, &full, &datagrams] {
        let error = open(path).expect_err("another listens");
        assert_eq!(error.to_string(), "another process listens there");
        assert!(path.exists());
    }
    let mut client = fixture.client();
    client.ask("version", None);
    assert_eq!(client.text(), "version 1\n");
}

#[test]
fn what_a_process_left_behind_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ctl");
    drop(UnixListener::bind(&path).expect("it is bound"));
    let socket = open(&path).expect("no process listens there");
    let mut client = Client::at(&path);
    client.ask("version", None);
    assert_eq!(client.text(), "2\n");
    drop(socket);
    assert!(!path.exists());
}

#[test]
fn another_socket_in_its_place_is_not_removed() {
    let fixture = Fixture::new();
    let path = fixture.path();
    fixture.socket.close_door();
    assert!(!path.exists());
    let second = open(&path).expect("there is none");
    fixture.socket.close_door();
    drop(fixture.socket);
    let mut client = Client::at(&path);
    client.ask("version", None);
    assert_eq!(client.text(), "2\n");
    drop(second);
    assert!(!path.exists());
}

#[test]
fn the_file_goes_if_the_socket_is_not_served() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("ctl");
    let bound = listener::listen(&path, 0o600).expect("it listens");
    assert!(path.exists());
    drop(bound);
    assert!(!path.exists());
}

#[test]
fn what_keeps_it_from_listening_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").expect("it is written");
    for (path, error) in [
        (Path::new("/nonexistent/ctl"), "No such file or directory"),
        (&*file, "Address already in use"),
        (folder.path(), "Address already in use"),
    ] {
        let said = open(path).expect_err("it cannot listen").to_string();
        assert!(said.starts_with(error), "{said}");
    }
    assert_eq!(std::fs::read(&file).expect("it is there"), b"kept");
}

#[test]
fn a_path_may_be_longer_than_a_sockets_address() {
    let name = format!("{}/{}/ctl", "a".repeat(100), "b".repeat(100));
    let fixture = Fixture::at(&name, ControlConfig::OPEN_VSWITCH);
    let path = fixture.folder.path().join(&name);
    assert!(path.as_os_str().len() > 108);
    let version = |path: &Path| {
        let client = ControlClient::connect(path, in_time());
        let said = client.expect("it is served").call("version", &[]);
        said.expect("it is answered")
    };
    assert_eq!(version(&path), "version 1\n");
    let again = open(&path).expect_err("it listens there");
    assert_eq!(again.to_string(), "another process listens there");
    drop(fixture.socket);
    assert!(!path.exists());
    // What a process left behind is replaced there too.
    let folder = std::fs::File::open(path.parent().expect("it has one")).expect("it is there");
    let short = format!(
        "/proc/self/fd/{}/ctl",
        std::os::fd::AsRawFd::as_raw_fd(&folder)
    );
    drop(UnixListener::bind(short).expect("it is bound"));
    assert!(path.exists());
    drop(open(&path).expect("no process listens there"));
    assert!(!path.exists());
}

#[test]
fn what_exceeds_a_bound_is_refused_and_the_socket_lives_on() {
    let config = ControlConfig {
        request_bytes_max: 1_000,
        answer_bytes_max: 10,
        ..ControlConfig::BOUNDED
    };
    let mut fixture = Fixture::at("ctl", config);
    let mode = std::fs::metadata(fixture.path()).expect("it is there");
    assert_eq!(mode.permissions().mode() & 0o777, 0o600);
    let mut client = fixture.client();
    client.ask("say", Some("a"));
    fixture.command().reply(Ok("x".repeat(11)));
    let (_, error) = client.reply();
    let text = "the answer has 11 bytes and may have 10; ask for a part of it\n";
    assert_eq!(error, text);
    client.ask("say", Some("a"));
    fixture.command().reply(Ok("x".repeat(10)));
    assert_eq!(client.text(), "x".repeat(10) + "\n");
    client.ask("say", Some(&"y".repeat(1_000)));
    assert!(client.is_closed());
    let mut other = fixture.client();
    other.ask("version", None);
    assert_eq!(other.text(), "version 1\n");
}

#[test]
fn the_client_gets_results_refusals_and_ends() {
    let fixture = Fixture::new();
    let path = fixture.path();
    let asking = std::thread::spawn(move || {
        let client = ControlClient::connect(&path, in_time());
        let mut client = client.expect("it is served");
        let said = client.call("version", &[]).expect("it is answered");
        let asked = ["a".to_owned()];
        let answered = client.call("say", &asked).expect("it is answered");
        let refused = client.call("say", &asked).expect_err("it is refused");
        let unknown = client.call("nothing", &[]).expect_err("it is unknown");
        let cut = client.call("say", &asked).expect_err("the socket ends");
        (
            said,
            answered,
            [refused, unknown, cut].map(|error| error.to_string()),
        )
    });
    let mut fixture = fixture;
    fixture.command().reply(Ok("A".to_owned()));
    fixture.command().reply(Err("no".to_owned()));
    let last = fixture.command();
    drop(last);
    let (said, answered, [refused, unknown, cut]) = asking.join().expect("it asks");
    assert_eq!((&*said, &*answered), ("version 1\n", "A\n"));
    assert_eq!(refused, "no");
    assert!(unknown.contains("not a valid command"), "{unknown}");
    assert_eq!(cut, NO_ANSWER);
    let gone = ControlClient::connect(&fixture.folder.path().join("none"), None);
    let gone = gone.expect_err("no process listens").to_string();
    assert!(gone.contains("is the switch running"), "{gone}");
}

#[test]
fn the_client_waits_until_its_deadline_and_no_longer() {
    let folder = tempfile::tempdir().expect("a folder");
    let soon = || Some(Instant::now() + Duration::from_millis(50));
    // A process that accepts no client.
    let full = folder.path().join("full");
    let _busy = busy(&full);
    let late = ControlClient::connect(&full, soon()).expect_err("it is busy");
    assert!(matches!(late, ControlClientError::Late), "{late}");
    let over = ControlClient::connect(&full, Some(Instant::now())).expect_err("it is over");
    assert!(matches!(over, ControlClientError::Late), "{over}");
    // One that sends a blank after the other, and never an answer.
    let path = folder.path().join("dribbles");
    let listener = UnixListener::bind(&path).expect("it listens");
    let dribbling = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a client");
        while stream.write_all(b" ").is_ok() {}
    });
    let mut client = ControlClient::connect(&path, soon()).expect("it is served");
    let late = client.call("version", &[]).expect_err("it never answers");
    assert!(matches!(late, ControlClientError::Late), "{late}");
    drop(client);
    dribbling.join().expect("it ends with its client");
    // One that takes nothing.
    let path = folder.path().join("takes nothing");
    let _listener = UnixListener::bind(&path).expect("it listens");
    let mut client = ControlClient::connect(&path, soon()).expect("it has room");
    let much = ["x".repeat(8 << 20)];
    let late = client.call("say", &much).expect_err("it takes nothing");
    assert!(matches!(late, ControlClientError::Late), "{late}");
}
