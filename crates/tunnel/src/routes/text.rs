//! The commands `ovs/route/add`, `del`, `show` and `lookup`, as Open vSwitch 3.1 has them.
//!
//! Where they read addresses more strictly: an octet above 255 is refused, which wraps in Open
//! vSwitch, and spaces and zeros in front of a number are.

use std::fmt::Write;
use std::net::{IpAddr, Ipv6Addr};

use super::{InterfaceAddress, RouteError, RouteOrigin, RoutePrefix, TunnelRoute, TunnelRoutes};
use crate::number::{Base, signed};

/// What commands without further words answer.
const DONE: &str = "OK";

impl TunnelRoutes {
    /// `ovs/route/add ip_addr/prefix_len out_br_name [gw] [pkt_mark=mark]`.
    ///
    /// `addresses_of` gives the addresses of a device; none if there is no such device.
    ///
    /// # Errors
    /// If an argument cannot be read, or the device has no address for the route.
    pub fn add_command(
        &mut self,
        arguments: &[&str],
        addresses_of: impl FnOnce(&str) -> Vec<InterfaceAddress>,
    ) -> Result<&'static str, RouteError> {
        let [prefix, device, rest @ ..] = arguments else {
            return Err(RouteError::BadParameters);
        };
        let is_ipv6 = prefix.contains(':');
        let prefix = RoutePrefix::parse(prefix).ok_or(RouteError::BadParameters)?;
        let (mut mark, mut gateway) = (0, None);
        if let Some(text) = rest.first() {
            let gateway_of = |text: &str| -> Option<IpAddr> {
                match is_ipv6 {
                    true => text.parse().ok().map(IpAddr::V6),
                    false => text.parse().ok().map(IpAddr::V4),
                }
            };
            match (parse_mark(text), gateway_of(text)) {
                (Some(read), _) => mark = read,
                (None, Some(read)) => gateway = Some(read),
                (None, None) if is_ipv6 => return Err(RouteError::BadMarkOrIpv6Gateway),
                (None, None) => return Err(RouteError::BadMarkOrGateway),
            }
        }
        if let Some(text) = rest.get(1) {
            mark = parse_mark(text).ok_or(RouteError::BadMark)?;
        }
        let row = TunnelRoute {
            prefix,
            mark,
            origin: RouteOrigin::User,
            device: (*device).to_owned(),
            gateway: gateway.filter(|gateway| !gateway.is_unspecified()),
        };
        let addresses = addresses_of(device);
        self.insert(row, &addresses)?;
        Ok(DONE)
    }

    /// `ovs/route/del ip_addr/prefix_len [pkt_mark=mark]`.
    ///
    /// # Errors
    /// If an argument cannot be read, or no user's row is like that.
    pub fn delete_command(&mut self, arguments: &[&str]) -> Result<&'static str, RouteError> {
        let (prefix, mark) = prefix_and_mark(arguments, |_| true)?;
        self.remove(mark, prefix, RouteOrigin::User)?;
        Ok(DONE)
    }

    /// `ovs/route/show`: a line for each row.
    pub fn show_command(&self) -> String {
        let mut text = "Route Table:\n".to_owned();
        for (row, source) in self.rows() {
            push_row(&mut text, row, source);
        }
        text
    }

    /// `ovs/route/lookup ip_addr [pkt_mark=mark]`.
    ///
    /// # Errors
    /// If an argument cannot be read, or there is no route.
    pub fn lookup_command(&self, arguments: &[&str]) -> Result<String, RouteError> {
        let (prefix, mark) = prefix_and_mark(arguments, RoutePrefix::is_host)?;
        let found = self.lookup(prefix.address(), mark, None);
        let found = found.ok_or(RouteError::NotFound)?;
        let none = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
        Ok(format!(
            "src {}\ngateway {}\ndev {}\n",
            found.source,
            found.gateway.unwrap_or(none),
            found.device
        ))
    }
}

fn prefix_and_mark(
    arguments: &[&str],
    is_right: impl FnOnce(RoutePrefix) -> bool,
) -> Result<(RoutePrefix, u32), RouteError> {
    let prefix = arguments.first().and_then(|text| RoutePrefix::parse(text));
    let Some(prefix) = prefix.filter(|prefix| is_right(*prefix)) else {
        return Err(RouteError::BadParameters);
    };
    let mark = match arguments.get(1) {
        Some(text) => parse_mark(text).ok_or(RouteError::BadMark)?,
        None => 0,
    };
    Ok((prefix, mark))
}

/// Reads `pkt_mark=` and a number of up to 32 bits, with or without a sign; what follows does not
/// matter.
fn parse_mark(text: &str) -> Option<u32> {
    let number = text.strip_prefix("pkt_mark=")?;
    let (mark, rest) = signed(number, Base::Any);
    let is_number = rest.len() < number.len();
    let fits = (i64::from(i32::MIN)..=i64::from(u32::MAX)).contains(&mark);
    (is_number && fits).then_some(mark as u32)
}

fn push_row(text: &mut String, row: &TunnelRoute, source: IpAddr) {
    let mut write = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).expect("a string takes any text");
    };
    let origin = match row.origin {
        RouteOrigin::User => "User",
        RouteOrigin::System | RouteOrigin::Local => "Cached",
    };
    write(format_args!("{origin}: {}", row.prefix));
    if row.mark != 0 {
        write(format_args!(" MARK {}", row.mark));
    }
    write(format_args!(" dev {}", row.device));
    if let Some(gateway) = row.gateway {
        write(format_args!(" GW {gateway}"));
    }
    write(format_args!(" SRC {source}"));
    if row.origin == RouteOrigin::Local {
        write(format_args!(" local"));
    }
    write(format_args!("\n"));
}
