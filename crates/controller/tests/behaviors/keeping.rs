//! Tests the controller behind `thalweg p4 keep` over a Unix socket, TCP and TLS.

use std::path::PathBuf;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use thalweg_control::{
    Catalog, Client, ClientConfig, ClientError, ClientFiles, TlsFiles, read_text,
};
use thalweg_controller::{KeepError, Keeping};
use thalweg_p4::Program;
use thalweg_p4::commands::{Command, parse};

use super::{Plane, frame, learning, switch};

const KNOWN: &str = "
table_add smac NoAction 00:00:00:00:00:01 =>
table_add smac NoAction 00:00:00:00:00:02 =>
table_add dmac forward 00:00:00:00:00:02 => 3
";

fn config(address: &str, tls: Option<ClientFiles>, election_id: u128) -> ClientConfig {
    ClientConfig {
        address: address.parse().expect("an address"),
        tls,
        device_id: 1,
        election_id,
    }
}

/// A program: its text, its parsed form, its P4Info.
struct Known {
    text: String,
    program: Program,
    info: thalweg_control::proto::p4::config::v1::P4Info,
    catalog: Catalog,
}

impl Known {
    fn new() -> Known {
        let (text, info) = learning();
        let info = read_text(&info).expect("P4Info");
        Known {
            program: Program::from_json(&text).expect("a program"),
            catalog: Catalog::new(&info).expect("of the program"),
            text,
            info,
        }
    }

    fn start(&self, config: ClientConfig, entries: u32) -> Result<Keeping<'_>, KeepError> {
        let client = Client::connect(config)?;
        let info = (&self.info, &self.catalog);
        Keeping::start(client, &self.text, &self.program, info, (entries, 0))
    }

    fn commands(&self, text: &str) -> Vec<Command> {
        parse(text, &self.program).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// Waits until `reports` more reports have been handled; panics if none comes in time.
fn handle(keeping: &mut Keeping<'_>, reports: u64) {
    let wanted = keeping.counts().reports + reports;
    while keeping.counts().reports < wanted {
        let before = keeping.counts().reports;
        keeping
            .handle_reports(Duration::from_secs(30))
            .expect("the switch is there");
        assert!(keeping.counts().reports > before, "no report came");
    }
}

/// Reports become behaviours, changes evict them, and a refused change has no effect.
fn keeps(plane: &Plane, keeping: &mut Keeping<'_>, known: &Known) {
    keeping.change(&known.commands(KNOWN)).expect("entries");
    let packet = frame(2, 1);
    assert_eq!(plane.packet(1, &packet), (vec![3], 1), "reported");
    handle(keeping, 1);
    assert_eq!((keeping.len(), keeping.counts().installed), (1, 1));
    assert_eq!(plane.packet(1, &packet), (vec![3], 0), "remembered");

    // A report under way while the entries change is never installed.
    assert_eq!(plane.packet(2, &packet), (vec![3], 1));
    let default = "table_set_default dmac forward => 2\n";
    keeping.change(&known.commands(default)).expect("a default");
    assert!(keeping.is_empty(), "the change affects what was there");
    handle(keeping, 1);
    assert_eq!((keeping.len(), keeping.counts().stale), (0, 1));
    assert_eq!(plane.packet(1, &packet), (vec![3], 1));
    handle(keeping, 1);
    assert_eq!(plane.packet(1, &packet), (vec![3], 0));

    // The first line is valid but not done, since the second fails.
    let twice = "table_add smac NoAction 00:00:00:00:00:07 =>\n\
                 table_add dmac forward 00:00:00:00:00:02 => 3\n";
    let refused = keeping.change(&known.commands(twice)).unwrap_err();
    let KeepError::Command { line: 2, problem } = &refused else {
        panic!("{refused}");
    };
    assert!(problem.message.contains("dmac"), "{refused}");
    let again = "table_add smac NoAction 00:00:00:00:00:07 =>\n";
    keeping.change(&known.commands(again)).expect("it is new");
    let counts = keeping.counts();
    assert_eq!((counts.malformed, counts.affected), (0, 2));
}

#[test]
fn a_cache_is_kept_over_a_unix_socket_and_tcp() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("p4rt.sock");
    for listen in [
        format!("unix:{}", path.display()),
        "tcp:127.0.0.1:0".to_owned(),
    ] {
        let (server, plane) = switch(&listen, None);
        let address = server.address().to_owned();
        let known = Known::new();
        let mut keeping = known.start(config(&address, None, 7), 100).expect("kept");
        keeps(&plane, &mut keeping, &known);
        // Only one controller may write.
        let second = known.start(config(&address, None, 6), 100).unwrap_err();
        let is_second = matches!(second, KeepError::Client(ClientError::NotPrimary { .. }));
        assert!(is_second, "{second}");
        server.stop();
        let gone = keeping.handle_reports(Duration::from_secs(30));
        assert!(gone.is_err(), "the switch has ended");
        let nobody = known.start(config(&address, None, 7), 100).unwrap_err();
        assert!(nobody.to_string().starts_with(&address), "{nobody}");
    }
}

#[test]
fn the_oldest_behavior_leaves_where_there_is_no_room() {
    let (server, plane) = switch("tcp:127.0.0.1:0", None);
    let address = server.address().to_owned();
    let known = Known::new();
    let mut keeping = known.start(config(&address, None, 1), 1).expect("kept");
    keeping.change(&known.commands(KNOWN)).expect("entries");
    for port in [1, 2, 1] {
        assert_eq!(plane.packet(port, &frame(2, 1)), (vec![3], 1));
        handle(&mut keeping, 1);
        assert_eq!(plane.packet(port, &frame(2, 1)), (vec![3], 0));
    }
    assert_eq!((keeping.len(), keeping.counts().replaced), (1, 2));
    server.stop();
}

/// An authority, with files of certificates that it has signed.
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Authority {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap(),
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// A certificate and its key.
    fn sign(&self, name: &str) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (
            self.write(&format!("{name}.pem"), &certificate.pem()),
            self.write(&format!("{name}.key"), &key.serialize_pem()),
        )
    }
}

#[test]
fn tls_shows_certificates_of_both() {
    let (ours, others) = (Authority::new(), Authority::new());
    let (certificate, key) = ours.sign("switch");
    let (server, plane) = switch(
        "tls:127.0.0.1:0",
        Some(TlsFiles {
            certificate,
            key,
            client_authorities: ours.write("clients.pem", &ours.issuer.pem()),
        }),
    );
    let address = server.address().to_owned();
    let files = |own: &Authority, believed: &Authority| {
        let (certificate, key) = own.sign("controller");
        Some(ClientFiles {
            certificate,
            key,
            server_authorities: own.write("switches.pem", &believed.issuer.pem()),
        })
    };
    let known = Known::new();
    for wrong in [None, files(&others, &ours), files(&ours, &others)] {
        let refused = known.start(config(&address, wrong, 1), 10);
        assert!(refused.is_err(), "a certificate is missing or another's");
    }
    let files = files(&ours, &ours);
    let mut keeping = known.start(config(&address, files, 1), 10).expect("kept");
    keeps(&plane, &mut keeping, &known);
    server.stop();
}
