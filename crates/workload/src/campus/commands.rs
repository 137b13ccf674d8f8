//! The entries of a campus, table by table.

use std::fmt::Write;

use super::*;

impl Campus {
    /// The entries, as commands.
    pub fn commands(&self) -> String {
        let mut text = format!(
            "# Entries for case {} of examples/p4/switch.p4.\n",
            self.case
        );
        self.ports_and_domains(&mut text);
        self.bridge_and_route(&mut text);
        if self.case >= 2 {
            self.access_list(&mut text);
        }
        if self.case >= 3 {
            self.translate(&mut text);
        }
        if self.case >= 4 {
            self.guard(&mut text);
        }
        text
    }

    fn ports_and_domains(&self, text: &mut String) {
        for port in 1..=PORTS {
            let own = own_domain(port);
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.port_vlan set_domain {port} 0 0&&&0 => {} 10",
                    vid(own)
                ),
            );
            line(
                text,
                format_args!(
                    "table_add SwitchEgress.send_frame set_smac {port} => {}",
                    router_mac(own)
                ),
            );
            for domain in 0..DOMAINS {
                let vid = vid(domain);
                line(
                    text,
                    format_args!(
                        "table_add SwitchIngress.port_vlan set_domain {port} 1 {vid}&&&0xfff => {vid} 10"
                    ),
                );
                let (untagged, tagged) = match domain == own {
                    true => (None, "untag".to_owned()),
                    false => (Some("tag"), "retag".to_owned()),
                };
                if let Some(action) = untagged {
                    line(
                        text,
                        format_args!(
                            "table_add SwitchEgress.vlan_xlate {action} {port} {vid} 0 => {vid}"
                        ),
                    );
                    line(
                        text,
                        format_args!(
                            "table_add SwitchEgress.vlan_xlate {tagged} {port} {vid} 1 => {vid}"
                        ),
                    );
                } else {
                    line(
                        text,
                        format_args!(
                            "table_add SwitchEgress.vlan_xlate {tagged} {port} {vid} 1 =>"
                        ),
                    );
                }
            }
        }
        self.groups(text);
    }

    /// The multicast groups: packets for the router, and the copies of multicast packets.
    fn groups(&self, text: &mut String) {
        let mut node = 0;
        for domain in 0..DOMAINS {
            let vid = vid(domain);
            let ports = (1..=PORTS).filter(|port| member(*port, domain));
            let ports: Vec<String> = ports.map(|port| port.to_string()).collect();
            let ports = ports.join(" ");
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.rmac route {vid} {} =>",
                    router_mac(domain)
                ),
            );
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.rmac route {vid} {} =>",
                    group_mac(domain)
                ),
            );
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.mcast_route copy_to {vid} 239.1.{domain}.1 => {}",
                    1_000 + domain
                ),
            );
            // The domain's own copies, and those for the next domain's group.
            line(text, format_args!("mc_mgrp_create {vid}"));
            line(text, format_args!("mc_node_create {vid} {ports}"));
            line(text, format_args!("mc_node_associate {vid} {node}"));
            line(
                text,
                format_args!(
                    "mc_mgrp_create {}",
                    1_000 + (domain + DOMAINS - 1) % DOMAINS
                ),
            );
            line(text, format_args!("mc_node_create {vid} {ports}"));
            line(
                text,
                format_args!(
                    "mc_node_associate {} {}",
                    1_000 + (domain + DOMAINS - 1) % DOMAINS,
                    node + 1
                ),
            );
            node += 2;
        }
    }

    fn bridge_and_route(&self, text: &mut String) {
        for station in &self.stations {
            let (vid, mac, port) = (vid(station.domain), station.mac(), station.port);
            line(
                text,
                format_args!("table_add SwitchIngress.smac NoAction {vid} {mac} {port} =>"),
            );
            line(
                text,
                format_args!("table_add SwitchIngress.dmac forward {vid} {mac} => {port}"),
            );
        }
        for (index, route) in self.routes.iter().enumerate() {
            let key = self.vrf_key(index);
            let (address, length) = (dotted(route.address), route.length);
            let hop = index + 1;
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.fib set_nexthop {key}{address}/{length} => {hop}"
                ),
            );
            let station = &self.stations[(index * 7 + 3) % self.stations.len()];
            let (mac, port, vid) = (station.mac(), station.port, vid(station.domain));
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.nexthop forward_to {hop} => {mac} {port} {vid}"
                ),
            );
        }
    }

    /// The virtual router of a route, if there are several.
    fn vrf_key(&self, route: usize) -> String {
        match self.case {
            4 => format!("{} ", 1 + route % 2),
            _ => String::new(),
        }
    }

    fn access_list(&self, text: &mut String) {
        for index in 0..self.denied {
            let (station, route) = self.pair(index);
            let (from, to, length) = (station.address(), dotted(route.address), route.length);
            let mask = dotted(u32::MAX << (32 - length));
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.ipv4_acl deny 0&&&0 {from}&&&255.255.255.255 {to}&&&{mask} 6&&&0xff 0&&&0 23&&&0xffff 0&&&0 => {}",
                    index + 1
                ),
            );
        }
    }

    fn translate(&self, text: &mut String) {
        for index in 0..self.translations {
            let (station, route) = self.pair(index);
            let (from, to) = (station.address(), dotted(route.inside(5)));
            let number = index + 1;
            let (high, low) = (index / 256, index % 256);
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.nat_twice nat_idx {from} 30.0.{high}.{low} 17 5000 53 => {number}"
                ),
            );
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.nat_rewrite set_both {number} => 192.0.2.1 {} {to} 5353",
                    10_000 + index
                ),
            );
            let number = number + self.translations;
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.nat_dst nat_idx 31.0.{high}.{low} 6 80 => {number}"
                ),
            );
            line(
                text,
                format_args!("table_add SwitchIngress.nat_rewrite set_dst {number} => {to} 8080"),
            );
            let number = number + self.translations;
            line(
                text,
                format_args!("table_add SwitchIngress.nat_src nat_idx {from} 17 6000 => {number}"),
            );
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.nat_rewrite set_src {number} => 192.0.2.2 {}",
                    10_000 + index
                ),
            );
        }
        for index in 0..self.flow_translations {
            let number = 3 * self.translations + index + 1;
            let (high, low) = (index / 256, index % 256);
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.nat_flow nat_idx 10.0.0.0&&&255.0.0.0 32.0.{high}.{low}&&&255.255.255.255 6&&&0xff 0&&&0 443&&&0xffff => {number} {}",
                    index + 1
                ),
            );
            let to = dotted(self.pair(index).1.inside(9));
            line(
                text,
                format_args!("table_add SwitchIngress.nat_rewrite set_dst {number} => {to} 8443"),
            );
        }
    }

    fn guard(&self, text: &mut String) {
        line(
            text,
            format_args!(
                "table_add SwitchIngress.packet_kind broadcast ff:ff:ff:ff:ff:ff&&&ff:ff:ff:ff:ff:ff => 1"
            ),
        );
        line(
            text,
            format_args!(
                "table_add SwitchIngress.packet_kind multicast 01:00:00:00:00:00&&&01:00:00:00:00:00 => 2"
            ),
        );
        line(
            text,
            format_args!(
                "table_add SwitchIngress.ipsg_permit permit 17&&&0xff 67&&&0xffff 0&&&0 => 1"
            ),
        );
        for port in 1..=PORTS {
            for kind in [2, 3] {
                let index = port * 4 + kind;
                line(
                    text,
                    format_args!(
                        "table_add SwitchIngress.storm police {port} {kind}&&&3 => {index} 1"
                    ),
                );
                // 8 Mbit/s, and at most 64 kB at once.
                line(
                    text,
                    format_args!("meter_set_rates storm_meter {index} 1:64000 1:64000"),
                );
            }
            line(
                text,
                format_args!("table_add SwitchIngress.storm_action SwitchIngress.drop 2 {port} =>"),
            );
        }
        for domain in 0..DOMAINS {
            line(
                text,
                format_args!(
                    "table_add SwitchIngress.vrf set_vrf {} => {}",
                    vid(domain),
                    1 + domain % 2
                ),
            );
        }
        for station in &self.stations {
            let (vid, mac, port, address) = (
                vid(station.domain),
                station.mac(),
                station.port,
                station.address(),
            );
            line(
                text,
                format_args!("table_add SwitchIngress.ipsg permit {port} {vid} {mac} {address} =>"),
            );
        }
    }
}

fn line(text: &mut String, command: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{command}");
}
