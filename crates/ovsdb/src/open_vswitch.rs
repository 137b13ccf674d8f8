//! The tables of the database `Open_vSwitch` that a switch reads and writes, as one list.
//!
//! Each table is a module with a constant for each column. A column that is `written` is one
//! that the switch sets: its value is known, so that nothing is written twice, and its changes
//! are not told. Columns that only others use, such as most `external_ids`, are left out.

use crate::column::{
    Boolean, Column, ColumnKind, ColumnSpec, Integer, Many, MapOf, Optional, Ref, RowsOf,
    TableIndex, TableSpec, Text,
};

macro_rules! is_named {
    () => {
        false
    };
    (name) => {
        true
    };
}

macro_rules! is_told {
    () => {
        true
    };
    (written) => {
        false
    };
}

macro_rules! tables {
    ($($(#[$doc:meta])* $module:ident = $table:literal $(by $by:ident)? {
        $($column:ident = $name:literal: $kind:ty $(, $written:ident)?;)*
    })*) => {
        #[allow(non_camel_case_types, reason = "the names of the modules")]
        enum Tables {
            $($module),*
        }

        /// All tables, in the order of their [`TableIndex`].
        pub const TABLES: &[TableSpec] = &[$(TableSpec {
            name: $table,
            columns: $module::COLUMNS,
            is_named: is_named!($($by)?),
        }),*];

        $($(#[$doc])*
        pub mod $module {
            #[allow(unused_imports, reason = "not every table has every kind of column")]
            use super::*;

            #[allow(non_camel_case_types, clippy::upper_case_acronyms, reason = "constants")]
            enum Columns {
                $($column),*
            }

            #[doc = concat!("The place of the table `", $table, "`.")]
            pub const TABLE: TableIndex = TableIndex(Tables::$module as u16);

            #[doc = concat!("The rows of the table `", $table, "`.")]
            #[derive(Debug)]
            pub enum Rows {}

            impl RowsOf for Rows {
                const TABLE: TableIndex = TABLE;
            }

            $(#[doc = concat!("The column `", $name, "`.")]
            pub const $column: Column<$kind> = Column::new(TABLE, Columns::$column as u16);)*

            pub(super) const COLUMNS: &[ColumnSpec] = &[$(ColumnSpec {
                name: $name,
                expected: <$kind as ColumnKind>::EXPECTED,
                is_told: is_told!($($written)?),
            }),*];
        })*
    };
}

tables! {
    /// The root, one row: the configuration as a whole.
    root = "Open_vSwitch" {
        DATAPATHS = "datapaths": MapOf<Text, Ref<super::datapath::Rows>>;
        BRIDGES = "bridges": Many<Ref<super::bridge::Rows>>;
        MANAGER_OPTIONS = "manager_options": Many<Ref<super::manager::Rows>>;
        SSL = "ssl": Optional<Ref<super::ssl::Rows>>;
        OTHER_CONFIG = "other_config": MapOf<Text, Text>;
        NEXT_CFG = "next_cfg": Integer;
        CUR_CFG = "cur_cfg": Integer, written;
        STATISTICS = "statistics": MapOf<Text, Text>, written;
        DATAPATH_TYPES = "datapath_types": Many<Text>, written;
        IFACE_TYPES = "iface_types": Many<Text>, written;
        DPDK_INITIALIZED = "dpdk_initialized": Boolean, written;
        DPDK_VERSION = "dpdk_version": Optional<Text>, written;
    }
    /// Bridges.
    bridge = "Bridge" by name {
        NAME = "name": Text;
        DATAPATH_TYPE = "datapath_type": Text;
        DATAPATH_VERSION = "datapath_version": Text, written;
        DATAPATH_ID = "datapath_id": Optional<Text>, written;
        STP_ENABLE = "stp_enable": Boolean;
        RSTP_ENABLE = "rstp_enable": Boolean;
        MCAST_SNOOPING_ENABLE = "mcast_snooping_enable": Boolean;
        PORTS = "ports": Many<Ref<super::port::Rows>>;
        MIRRORS = "mirrors": Many<Ref<super::mirror::Rows>>;
        NETFLOW = "netflow": Optional<Ref<super::netflow::Rows>>;
        SFLOW = "sflow": Optional<Ref<super::sflow::Rows>>;
        IPFIX = "ipfix": Optional<Ref<super::ipfix::Rows>>;
        CONTROLLER = "controller": Many<Ref<super::controller::Rows>>;
        PROTOCOLS = "protocols": Many<Text>;
        FAIL_MODE = "fail_mode": Optional<Text>;
        STATUS = "status": MapOf<Text, Text>, written;
        RSTP_STATUS = "rstp_status": MapOf<Text, Text>, written;
        OTHER_CONFIG = "other_config": MapOf<Text, Text>;
        FLOOD_VLANS = "flood_vlans": Many<Integer>;
        FLOW_TABLES = "flow_tables": MapOf<Integer, Ref<super::flow_table::Rows>>;
        AUTO_ATTACH = "auto_attach": Optional<Ref<super::auto_attach::Rows>>;
    }
    /// Ports of bridges.
    port = "Port" by name {
        NAME = "name": Text;
        INTERFACES = "interfaces": Many<Ref<super::interface::Rows>>;
        TRUNKS = "trunks": Many<Integer>;
        CVLANS = "cvlans": Many<Integer>;
        TAG = "tag": Optional<Integer>;
        VLAN_MODE = "vlan_mode": Optional<Text>;
        QOS = "qos": Optional<Ref<super::qos::Rows>>;
        MAC = "mac": Optional<Text>;
        BOND_MODE = "bond_mode": Optional<Text>;
        LACP = "lacp": Optional<Text>;
        BOND_UPDELAY = "bond_updelay": Integer;
        BOND_DOWNDELAY = "bond_downdelay": Integer;
        BOND_ACTIVE_SLAVE = "bond_active_slave": Optional<Text>, written;
        BOND_FAKE_IFACE = "bond_fake_iface": Boolean;
        FAKE_BRIDGE = "fake_bridge": Boolean;
        STATUS = "status": MapOf<Text, Text>, written;
        RSTP_STATUS = "rstp_status": MapOf<Text, Text>, written;
        RSTP_STATISTICS = "rstp_statistics": MapOf<Text, Integer>, written;
        STATISTICS = "statistics": MapOf<Text, Integer>, written;
        PROTECTED = "protected": Boolean;
        OTHER_CONFIG = "other_config": MapOf<Text, Text>;
    }
    /// Interfaces of ports; several in a bond.
    interface = "Interface" by name {
        NAME = "name": Text;
        TYPE = "type": Text;
        OPTIONS = "options": MapOf<Text, Text>;
        INGRESS_POLICING_RATE = "ingress_policing_rate": Integer;
        INGRESS_POLICING_BURST = "ingress_policing_burst": Integer;
        INGRESS_POLICING_KPKTS_RATE = "ingress_policing_kpkts_rate": Integer;
        INGRESS_POLICING_KPKTS_BURST = "ingress_policing_kpkts_burst": Integer;
        MAC_IN_USE = "mac_in_use": Optional<Text>, written;
        MAC = "mac": Optional<Text>;
        IFINDEX = "ifindex": Optional<Integer>, written;
        OFPORT = "ofport": Optional<Integer>, written;
        OFPORT_REQUEST = "ofport_request": Optional<Integer>;
        BFD = "bfd": MapOf<Text, Text>;
        BFD_STATUS = "bfd_status": MapOf<Text, Text>, written;
        CFM_MPID = "cfm_mpid": Optional<Integer>;
        CFM_REMOTE_MPIDS = "cfm_remote_mpids": Many<Integer>, written;
        CFM_FLAP_COUNT = "cfm_flap_count": Optional<Integer>, written;
        CFM_FAULT = "cfm_fault": Optional<Boolean>, written;
        CFM_FAULT_STATUS = "cfm_fault_status": Many<Text>, written;
        CFM_REMOTE_OPSTATE = "cfm_remote_opstate": Optional<Text>, written;
        CFM_HEALTH = "cfm_health": Optional<Integer>, written;
        LACP_CURRENT = "lacp_current": Optional<Boolean>, written;
        LLDP = "lldp": MapOf<Text, Text>;
        OTHER_CONFIG = "other_config": MapOf<Text, Text>;
        STATISTICS = "statistics": MapOf<Text, Integer>, written;
        STATUS = "status": MapOf<Text, Text>, written;
        ADMIN_STATE = "admin_state": Optional<Text>, written;
        LINK_STATE = "link_state": Optional<Text>, written;
        LINK_RESETS = "link_resets": Optional<Integer>, written;
        LINK_SPEED = "link_speed": Optional<Integer>, written;
        DUPLEX = "duplex": Optional<Text>, written;
        MTU = "mtu": Optional<Integer>, written;
        MTU_REQUEST = "mtu_request": Optional<Integer>;
        ERROR = "error": Optional<Text>, written;
    }
    /// OpenFlow controllers of bridges.
    controller = "Controller" {
        TYPE = "type": Optional<Text>;
        TARGET = "target": Text;
        MAX_BACKOFF = "max_backoff": Optional<Integer>;
        INACTIVITY_PROBE = "inactivity_probe": Optional<Integer>;
        CONNECTION_MODE = "connection_mode": Optional<Text>;
        LOCAL_IP = "local_ip": Optional<Text>;
        LOCAL_NETMASK = "local_netmask": Optional<Text>;
        LOCAL_GATEWAY = "local_gateway": Optional<Text>;
        ENABLE_ASYNC_MESSAGES = "enable_async_messages": Optional<Boolean>;
        CONTROLLER_QUEUE_SIZE = "controller_queue_size": Optional<Integer>;
        CONTROLLER_RATE_LIMIT = "controller_rate_limit": Optional<Integer>;
        CONTROLLER_BURST_LIMIT = "controller_burst_limit": Optional<Integer>;
        OTHER_CONFIG = "other_config": MapOf<Text, Text>;
        IS_CONNECTED = "is_connected": Boolean, written;
        ROLE = "role": Optional<Text>, written;
        STATUS = "status": MapOf<Text, Text>, written;
    }
    /// Connections of the database server; they are its own.
    manager = "Manager" {
        TARGET = "target": Text;
        CONNECTION_MODE = "connection_mode": Optional<Text>;
        OTHER_CONFIG = "other_config": MapOf<Text, Text>;
    }
    /// Mirrors of bridges.
    mirror = "Mirror" by name {
        NAME = "name": Text;
        SELECT_ALL = "select_all": Boolean;
        SELECT_SRC_PORT = "select_src_port": Many<Ref<super::port::Rows>>;
        SELECT_DST_PORT = "select_dst_port": Many<Ref<super::port::Rows>>;
        SELECT_VLAN = "select_vlan": Many<Integer>;
        OUTPUT_PORT = "output_port": Optional<Ref<super::port::Rows>>;
        OUTPUT_VLAN = "output_vlan": Optional<Integer>;
        SNAPLEN = "snaplen": Optional<Integer>;
        STATISTICS = "statistics": MapOf<Text, Integer>, written;
    }
    /// Qualities of service of ports.
    qos = "QoS" {
        TYPE = "type": Text;
        QUEUES = "queues": MapOf<Integer, Ref<super::queue::Rows>>;
        OTHER_CONFIG = "other_config": MapOf<Text, Text>;
    }
    /// Queues of qualities of service.
    queue = "Queue" {
        DSCP = "dscp": Optional<Integer>;
        OTHER_CONFIG = "other_config": MapOf<Text, Text>;
    }
    /// Limits of OpenFlow tables.
    flow_table = "Flow_Table" {
        NAME = "name": Optional<Text>;
        FLOW_LIMIT = "flow_limit": Optional<Integer>;
        OVERFLOW_POLICY = "overflow_policy": Optional<Text>;
        GROUPS = "groups": Many<Text>;
        PREFIXES = "prefixes": Many<Text>;
        EXTERNAL_IDS = "external_ids": MapOf<Text, Text>;
    }
    /// Keys and certificates.
    ssl = "SSL" {
        PRIVATE_KEY = "private_key": Text;
        CERTIFICATE = "certificate": Text;
        CA_CERT = "ca_cert": Text;
        BOOTSTRAP_CA_CERT = "bootstrap_ca_cert": Boolean;
    }
    /// Flow records as IPFIX.
    ipfix = "IPFIX" {
        TARGETS = "targets": Many<Text>;
        SAMPLING = "sampling": Optional<Integer>;
        OBS_DOMAIN_ID = "obs_domain_id": Optional<Integer>;
        OBS_POINT_ID = "obs_point_id": Optional<Integer>;
        CACHE_ACTIVE_TIMEOUT = "cache_active_timeout": Optional<Integer>;
        CACHE_MAX_FLOWS = "cache_max_flows": Optional<Integer>;
        OTHER_CONFIG = "other_config": MapOf<Text, Text>;
    }
    /// Samples as sFlow.
    sflow = "sFlow" {
        TARGETS = "targets": Many<Text>;
        SAMPLING = "sampling": Optional<Integer>;
        POLLING = "polling": Optional<Integer>;
        HEADER = "header": Optional<Integer>;
        AGENT = "agent": Optional<Text>;
    }
    /// Flow records as NetFlow.
    netflow = "NetFlow" {
        TARGETS = "targets": Many<Text>;
        ENGINE_TYPE = "engine_type": Optional<Integer>;
        ENGINE_ID = "engine_id": Optional<Integer>;
        ADD_ID_TO_INTERFACE = "add_id_to_interface": Boolean;
        ACTIVE_TIMEOUT = "active_timeout": Integer;
    }
    /// What `sample` actions send to.
    flow_sample_collector_set = "Flow_Sample_Collector_Set" {
        ID = "id": Integer;
        BRIDGE = "bridge": Optional<Ref<super::bridge::Rows>>;
        IPFIX = "ipfix": Optional<Ref<super::ipfix::Rows>>;
    }
    /// Data paths by type.
    datapath = "Datapath" {
        DATAPATH_VERSION = "datapath_version": Text;
        CT_ZONES = "ct_zones": MapOf<Integer, Ref<super::ct_zone::Rows>>;
        CAPABILITIES = "capabilities": MapOf<Text, Text>, written;
        EXTERNAL_IDS = "external_ids": MapOf<Text, Text>;
    }
    /// Zones of connection tracking.
    ct_zone = "CT_Zone" {
        TIMEOUT_POLICY = "timeout_policy": Optional<Ref<super::ct_timeout_policy::Rows>>;
        EXTERNAL_IDS = "external_ids": MapOf<Text, Text>;
    }
    /// Timeouts of connections.
    ct_timeout_policy = "CT_Timeout_Policy" {
        TIMEOUTS = "timeouts": MapOf<Text, Integer>;
        EXTERNAL_IDS = "external_ids": MapOf<Text, Text>;
    }
    /// IEEE 802.1Qcj.
    auto_attach = "AutoAttach" {
        SYSTEM_NAME = "system_name": Text;
        SYSTEM_DESCRIPTION = "system_description": Text;
        MAPPINGS = "mappings": MapOf<Integer, Integer>;
    }
}
