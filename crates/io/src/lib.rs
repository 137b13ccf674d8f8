//! Ports: memory, pcap, tap, AF_PACKET, and wrappers.
