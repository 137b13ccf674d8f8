use super::*;

fn directories() -> Directories {
    Directories::from_variables(|name| (name == "OVS_RUNDIR").then(|| "/run/test".into()))
}

fn parse(line: &str) -> Result<DaemonOptions, NoOptions> {
    let arguments = line.split_whitespace().map(OsString::from);
    DaemonOptions::parse_with(arguments, directories(), "null")
}

fn wrong(line: &str) -> String {
    match parse(line) {
        Err(NoOptions::Wrong(error)) => error,
        other => panic!("{line} is not refused: {other:?}"),
    }
}

#[test]
fn the_tests_of_open_vswitch_start_it_so() {
    let options = parse(
        "--enable-dummy=override --disable-system --disable-system-route --dummy-numa 0,0,1,1 \
         --detach --no-chdir --pidfile --log-file -vvconn -vofproto_dpif -vunixctl",
    );
    let options = options.expect("it is right");
    assert_eq!(options.enable_dummy, Some(DummyLevel::All));
    assert!(options.disable_system && options.disable_system_route);
    assert_eq!(options.dummy_numa, [0, 0, 1, 1]);
    assert!(options.detach && options.no_chdir && !options.monitor);
    assert_eq!(options.verbose, ["vconn", "ofproto_dpif", "unixctl"]);
    assert_eq!(options.database(), "unix:/run/test/db.sock");
    let path = |text: &str| Some(PathBuf::from(text));
    assert_eq!(options.pidfile_path(), path("/run/test/ovs-vswitchd.pid"));
    assert_eq!(
        options.log_path(),
        path("/var/log/openvswitch/ovs-vswitchd.log")
    );
    assert_eq!(
        options.control_path(7),
        path("/run/test/ovs-vswitchd.7.ctl")
    );
    assert_eq!(options.syslog, SyslogMethod::Null);
}

#[test]
fn debian_starts_it_so() {
    let options = parse(
        "unix:/var/run/openvswitch/db.sock -vconsole:emer -vsyslog:err -vfile:info --mlockall \
         --no-chdir --log-file=/var/log/openvswitch/ovs-vswitchd.log \
         --pidfile=/var/run/openvswitch/ovs-vswitchd.pid --detach --syslog-method libc",
    );
    let options = options.expect("it is right");
    assert_eq!(options.database(), "unix:/var/run/openvswitch/db.sock");
    assert!(options.mlockall && options.detach);
    assert_eq!(options.syslog, SyslogMethod::Libc);
    assert_eq!(options.enable_dummy, None);
}

#[test]
fn values_are_attached_optional_repeated_and_shortened_as_getopt_has_it() {
    let options = parse("-v -vconsole:off --verbose=PATTERN:file:%m -v --verb a");
    let options = options.expect("it is right");
    let specs = ["", "console:off", "PATTERN:file:%m", "", ""];
    assert_eq!(options.verbose, specs);
    assert_eq!(options.database(), "a");
    let options = parse("--pidfile=a --pidfile=/b/c --unixctl x --unixctl=y --det -p k -c=c -CC");
    let options = options.expect("it is right");
    assert_eq!(options.pidfile_path(), Some("/b/c".into()));
    assert_eq!(options.control_path(1), Some("/run/test/y".into()));
    assert_eq!(options.private_key, Some("k".into()));
    assert_eq!(options.ca_cert, Some("C".into()));
    assert_eq!(parse("--unixctl=none").unwrap().control_path(1), None);
    let beside = parse("--enable-dummy").unwrap().enable_dummy;
    assert_eq!(beside, Some(DummyLevel::Beside));
    // After two dashes, nothing is an option.
    assert_eq!(parse("-- -vx").unwrap().database(), "-vx");
}

#[test]
fn what_is_wrong_is_said_in_one_line() {
    for (line, error) in [
        ("--bogus", "unrecognized option '--bogus'"),
        ("-x", "invalid option -- 'x'"),
        (
            "a b",
            "at most one non-option argument accepted; use --help for usage",
        ),
        (
            "-vfoo:bar",
            "processing \"foo:bar\": no destination, level, or module \"foo\"",
        ),
        ("--syslog-method=foo", "unsupported syslog method 'foo'"),
        ("--dpdk", "Using --dpdk to configure DPDK is not supported."),
    ] {
        assert_eq!(wrong(line), error, "{line}");
    }
    assert!(wrong("--enable-dummy=foo").contains("foo: unknown dummy level"));
    assert!(wrong("--dummy-numa 0,x").contains("invalid value 'x'"));
    assert!(wrong("--unixctl").contains("a value is required"));
}

#[test]
fn scripts_read_the_version() {
    let Err(NoOptions::Text(text)) = parse("-V") else {
        panic!("it is a text");
    };
    assert_eq!(text.trim_end(), VERSION_TEXT);
    // ovs-ctl: awk '/Open vSwitch/{print $NF}'
    let named: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("Open vSwitch"))
        .collect();
    let words: Vec<&str> = named.concat().leak().split(' ').collect();
    assert_eq!((named.len(), words.last()), (1, Some(&OVS_VERSION)));
    assert!(text.contains("Thalweg"));
}

#[test]
fn directories_are_those_of_the_environment_or_debian() {
    let none = Directories::from_variables(|_| None);
    assert_eq!(none.run, Path::new("/var/run/openvswitch"));
    assert_eq!(none.database, Path::new("/etc/openvswitch"));
    let empty = Directories::from_variables(|_| Some(OsString::new()));
    assert_eq!(empty, none);
    let below = |name: &str| (name == "OVS_SYSCONFDIR").then(|| "/x".into());
    let below = Directories::from_variables(below);
    assert_eq!(below.database, Path::new("/x/openvswitch"));
    assert_eq!(below.configuration, Path::new("/x"));
}
