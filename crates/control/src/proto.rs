//! The messages and the service of P4Runtime, as `build.rs` makes them from `proto/`.
//!
//! The modules lie as the packages do, since the messages refer to each other by them.

#![allow(missing_docs, unreachable_pub, clippy::all, rustdoc::all)]

pub mod google {
    pub mod rpc {
        tonic::include_proto!("google.rpc");
    }
}

pub mod p4 {
    pub mod config {
        pub mod v1 {
            tonic::include_proto!("p4.config.v1");
        }
    }
    pub mod v1 {
        tonic::include_proto!("p4.v1");
    }
}
