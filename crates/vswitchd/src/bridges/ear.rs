//! Messages of OpenFlow in the log, as texts.

use thalweg_control::openflow::{MessageEar, MessageSight, Versions};
use thalweg_switch::openflow_text;

use crate::log::{Log, LogLimit};
use crate::vlog::{LogLevel, modules};

/// Messages are logged up to this rate, as in Open vSwitch.
static MESSAGE_LIMIT: LogLimit = LogLimit::new(600, 600);

/// Logs what connections of a bridge carry: messages at the level of debugging of `vconn`, and
/// how many flow entries were changed.
pub(super) struct LoggingEar {
    pub(super) log: Log,
    pub(super) bridge: String,
}

impl MessageEar for LoggingEar {
    fn is_open(&self) -> bool {
        self.log.is_enabled(modules::VCONN, LogLevel::Debug)
    }

    fn hear(&self, connection: &str, sight: MessageSight<'_>) {
        let (module, level) = (modules::VCONN, LogLevel::Debug);
        let log = |text: &dyn Fn() -> String| {
            self.log.write_limited(&MESSAGE_LIMIT, module, level, text);
        };
        match sight {
            MessageSight::FlowMods(report) => {
                self.log.write(modules::CONNMGR, LogLevel::Info, || {
                    format!("{}<->{connection}: {report}", self.bridge)
                });
            }
            MessageSight::Received(message) => log(&|| {
                let text = openflow_text(message);
                format!("{connection}: received: {text}")
            }),
            MessageSight::Sent(message) => log(&|| {
                let text = openflow_text(message);
                format!("{connection}: sent (Success): {text}")
            }),
            MessageSight::Negotiated(version, own, peer) => self.log.write(module, level, || {
                let (version, own) = (version.number(), versions_text(own));
                let peer = versions_text(peer);
                format!(
                    "{connection}: negotiated OpenFlow version 0x{version:02x} (we support {own}, \
                     peer supports {peer})"
                )
            }),
        }
    }
}

/// Versions, as Open vSwitch names them.
fn versions_text(versions: Versions) -> String {
    let numbers: Vec<String> = versions
        .iter()
        .map(|version| format!("0x{:02x}", version.number()))
        .collect();
    let is_from_first = versions.newest().is_some_and(|newest| {
        let older = Versions::up_to(newest.number());
        older == versions
    });
    match &numbers[..] {
        [] => "no versions".to_owned(),
        [only] => format!("version {only}"),
        [.., newest] if is_from_first => format!("version {newest} and earlier"),
        _ => format!("versions {}", numbers.join(", ")),
    }
}
