//! Ports, workers, control and datapath: a running switch.
