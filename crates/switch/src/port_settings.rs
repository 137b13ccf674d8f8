//! What was set of ports: whether they are down, receive and send.
//!
//! 1. A setting stays when its port leaves, and holds for the next one with its number.

use std::collections::BTreeMap;

use thalweg_io::{Block, BlockPort, Port};
use thalweg_packet::PortId;

/// What a port is kept from; nothing at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct PortSetting {
    /// It is down: neither receives nor sends.
    pub(crate) is_down: bool,
    /// What it receives is dropped.
    pub(crate) drops_received: bool,
    /// What it should send is dropped.
    pub(crate) drops_sent: bool,
}

/// The settings of all ports.
#[derive(Debug, Default)]
pub(crate) struct PortSettings {
    blocks: BTreeMap<PortId, Block>,
    settings: BTreeMap<PortId, PortSetting>,
}

impl PortSettings {
    /// Makes a port follow the settings of its number.
    pub(crate) fn wrap(&mut self, number: PortId, port: Box<dyn Port>) -> Box<dyn Port> {
        let (port, block) = BlockPort::new(port);
        self.blocks.insert(number, block);
        self.put(number);
        Box::new(port)
    }

    /// Sets what a port is kept from. Workers see it with their next burst.
    pub(crate) fn set(&mut self, number: PortId, setting: PortSetting) {
        self.settings.insert(number, setting);
        self.put(number);
    }

    /// Whether a port was taken down.
    pub(crate) fn is_down(&self, number: PortId) -> bool {
        let setting = self.settings.get(&number);
        setting.is_some_and(|setting| setting.is_down)
    }

    fn put(&self, number: PortId) {
        let setting = self.settings.get(&number).copied().unwrap_or_default();
        if let Some(block) = self.blocks.get(&number) {
            let PortSetting {
                is_down,
                drops_received,
                drops_sent,
            } = setting;
            block.set(is_down || drops_received, is_down || drops_sent);
        }
    }
}
