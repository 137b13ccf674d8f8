use std::time::Duration;

use super::*;

fn log() -> LogSettings {
    let identity = LogIdentity {
        program: "ovs-vswitchd".to_owned(),
        host: "host".to_owned(),
        pid: 77,
        syslog_prefix: String::new(),
    };
    LogSettings::new(identity, ["vconn", "bridge", "ofproto_dpif_xlate"])
}

/// 2026-11-25T07:26:52.555Z.
const MOMENT: LogMoment = LogMoment {
    since_epoch: Duration::from_millis(1_795_591_612_555),
    since_start: Duration::from_millis(12_345),
    utc_offset_seconds: 3600,
    sequence: 53,
};

fn line(log: &LogSettings, to: LogDestination, thread: &str, text: &str) -> String {
    let record = LogRecord {
        module: log.module("vconn").expect("it is there"),
        level: LogLevel::Debug,
        thread,
        text,
    };
    log.line(to, &record, &MOMENT)
}

#[test]
fn lines_are_as_open_vswitch_writes_them() {
    let log = log();
    let text = "unix#2: sent (Success)\n\n";
    assert_eq!(
        line(&log, LogDestination::File, "", text),
        "2026-11-25T07:26:52.555Z|00053|vconn|DBG|unix#2: sent (Success)"
    );
    assert_eq!(
        line(&log, LogDestination::Console, "handler1", text),
        "2026-11-25T07:26:52Z|00053|vconn(handler1)|DBG|unix#2: sent (Success)"
    );
    assert_eq!(
        line(&log, LogDestination::Syslog, "", text),
        "ovs|00053|vconn|DBG|unix#2: sent (Success)"
    );
}

#[test]
fn every_field_of_a_pattern_is_known() {
    let mut log = log();
    for (pattern, expected) in [
        (
            "%A %B %c %c{2} %E %p %P %r",
            "ovs-vswitchd 135 vconn vconn host DBG 77 12345",
        ),
        ("%t%T|%n%%|%q", "main|\n%|q"),
        (
            "%10m|%-10m|%03N|%1N|%-05N|",
            "      text|text      |053|53|53000|",
        ),
        ("%d|%D", "2026-11-25 08:26:52.555|2026-11-25 07:26:52.555"),
        ("%D{%h %e %T ##.#####}", "Nov 25 07:26:52 55.55500"),
        ("%D{%Q}|%D{}|%D{%s", "%Q||1795591612"),
        ("%D{%Ey %-d %é %9Y %}|%D{é", "26 25 %é %9Y %|é"),
        ("é%5té%", "é maing"),
    ] {
        let expected = expected.replace("maing", "mainé");
        log.set(&format!("PATTERN:file:{pattern}"))
            .expect("it is right");
        assert_eq!(
            line(&log, LogDestination::File, "", "text"),
            expected,
            "{pattern}"
        );
    }
    log.set("PATTERN:file:%99999999999999999999m")
        .expect("it is right");
    assert_eq!(
        line(&log, LogDestination::File, "", "text").len(),
        FIELD_MAX
    );
    log.set("FACILITY:daemon").expect("it is right");
    log.set("PATTERN:any:%B %t").expect("it is right");
    assert_eq!(line(&log, LogDestination::Console, "urcu", ""), "31 urcu");
}

#[test]
fn specifications_change_levels_or_say_what_is_wrong() {
    let mut log = log();
    for (spec, error) in [
        ("console:off", None),
        ("BRIDGE file, err", None),
        ("any any vconn", None),
        ("console:file", Some("cannot specify multiple destinations")),
        ("err:warn", Some("cannot specify multiple levels")),
        ("vconn:bridge", Some("cannot specify multiple modules")),
        (
            "vcon:err",
            Some("no destination, level, or module \"vcon\""),
        ),
        ("PATTERN", Some("missing destination")),
        ("pattern:fil:x", Some("unknown destination \"fil\"")),
        ("FACILITY:x", Some("invalid facility")),
    ] {
        assert_eq!(log.set(spec).err().as_deref(), error, "{spec}");
    }
    expect_test::expect![[r#"
                         console    syslog    file
                         -------    ------    ------
        bridge             OFF       INFO        ERR
        ofproto_dpif_xlate   OFF       INFO       INFO
        vconn              DBG        DBG        DBG
    "#]]
    .assert_eq(&log.list());
    log.set("").expect("it is right");
    let bridge = log.module("bridge").expect("it is there");
    assert!(log.is_logged(bridge, LogDestination::Console, LogLevel::Debug));
}

fn ask(log: &mut LogSettings, command: &str, arguments: &[&str]) -> Option<Result<String, String>> {
    log.handle(&ControlRequest {
        command: command.to_owned(),
        arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
    })
}

#[test]
fn commands_are_carried_out_up_to_the_first_that_is_wrong() {
    let mut log = log();
    let done = Some(Ok(String::new()));
    assert_eq!(
        ask(&mut log, "vlog/set", &["bridge:off", "vconn:err:file"]),
        done
    );
    let wrong = ask(&mut log, "vlog/set", &["vconn:off", "x", "bridge:dbg"]);
    let error = "no destination, level, or module \"x\"".to_owned();
    assert_eq!(wrong, Some(Err(error)));
    assert_eq!(ask(&mut log, "vlog/disable-rate-limit", &["VCONN"]), done);
    let wrong = ask(&mut log, "vlog/disable-rate-limit", &["x"]);
    assert_eq!(wrong, Some(Err("unknown module".to_owned())));
    expect_test::expect![[r#"
                         console    syslog    file
                         -------    ------    ------
        bridge             OFF        OFF        OFF
        ofproto_dpif_xlate  INFO       INFO       INFO
        vconn              OFF        OFF        OFF    (rate limiting disabled)
    "#]]
    .assert_eq(
        &ask(&mut log, "vlog/list", &[])
            .expect("it is known")
            .expect("it is right"),
    );
    let vconn = log.module("vconn").expect("it is there");
    assert!(!log.is_rate_limited(vconn));
    assert_eq!(ask(&mut log, "vlog/enable-rate-limit", &[]), done);
    assert!(log.is_rate_limited(vconn));
    assert_eq!(ask(&mut log, "vlog/reopen", &[]), None);
    expect_test::expect![[r#"
                 prefix                            format
                 ------                            ------
        SYSLOG                                     ovs|%05N|%c%T|%p|%m
        CONSOLE  none                              %D{%Y-%m-%dT%H:%M:%SZ}|%05N|%c%T|%p|%m
        FILE     none                              %D{%Y-%m-%dT%H:%M:%S.###Z}|%05N|%c%T|%p|%m
    "#]]
    .assert_eq(&log.list_patterns());
}
