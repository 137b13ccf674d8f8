//! A P4Runtime controller for one switch: connects, becomes primary, writes, and receives
//! messages.
//!
//! ```text
//!   connect: socket --> (TLS) --> gRPC --> a stream; arbitration answered "primary"
//!   set_pipeline, write: one call each, answered when it is done
//!   poll_message: what has come in on the stream, waited for as long as is said
//! ```
//!
//! It blocks its caller, and has its own runtime for that: a user does one thing at a time.
//! The crate `controller` uses it.
//!
//! Reference: *P4Runtime Specification*, version 1.5.0, "Client Arbitration and Controller
//! Replication".

mod connect;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::problem::{Code, Failure, Problem};
use crate::proto::p4::config::v1::P4Info;
use crate::proto::p4::v1 as p4;
use crate::proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use crate::proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use crate::proto::p4::v1::stream_message_request::Update as Request;
use crate::proto::p4::v1::stream_message_response::Update as Response;
use crate::server::{Listen, TlsError};

/// Maximum messages waiting to be sent to the switch.
const MESSAGES: usize = 64;
/// Maximum time a switch may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client's files in PEM form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientFiles {
    /// The client's certificate, with those between it and an authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities whose servers are trusted.
    pub server_authorities: PathBuf,
}

/// The switch to connect to, and the client's identity.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientConfig {
    /// Where the switch listens.
    pub address: Listen,
    /// The files for an address with TLS.
    pub tls: Option<ClientFiles>,
    /// The device id of the switch.
    pub device_id: u64,
    /// The controller with the largest id is the primary; at least 1.
    pub election_id: u128,
}

/// Why a controller cannot continue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No connection could be made.
    #[error("{address}: {what}; does a switch listen there?")]
    Unreachable {
        /// The address as configured.
        address: String,
        /// The error of the system or the other side.
        what: String,
    },
    /// Certificates or keys cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Another controller is the primary.
    #[error(
        "{address}: another controller is the primary; give a larger election id, or end the other"
    )]
    NotPrimary {
        /// The address as configured.
        address: String,
    },
    /// The switch closed the stream, or did not answer.
    #[error("{address}: the switch has ended the connection")]
    Ended {
        /// The address as configured.
        address: String,
    },
    /// The switch refused, with its reason.
    #[error("{}", said(.0))]
    Refused(Failure),
    /// A runtime could not be started.
    #[error("a runtime cannot be started: {0}")]
    Runtime(#[source] io::Error),
}

/// The first refusal of a failure, in words.
fn said(failure: &Failure) -> String {
    match failure {
        Failure::Call(problem) => problem.to_string(),
        Failure::Parts(verdicts) => {
            let refused = |verdict: &Result<(), Problem>| {
                let problem = verdict.as_ref().err()?;
                // Aborted updates failed only because of another one.
                (problem.code != Code::Aborted).then(|| problem.to_string())
            };
            let found = verdicts.iter().find_map(refused);
            found.unwrap_or_else(|| "the batch was refused".to_owned())
        }
    }
}

/// The primary controller of a switch.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    rpc: P4RuntimeClient<Channel>,
    outlet: mpsc::Sender<p4::StreamMessageRequest>,
    inlet: tonic::Streaming<p4::StreamMessageResponse>,
    config: ClientConfig,
}

impl Client {
    /// Connects, and becomes the primary.
    ///
    /// # Errors
    /// Fails if there is no answer, if certificates are not accepted, or if another controller
    /// is the primary.
    pub fn connect(config: ClientConfig) -> Result<Client, ClientError> {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_all().build();
        let runtime = runtime.map_err(ClientError::Runtime)?;
        let (rpc, outlet, inlet) = runtime.block_on(open(&config))?;
        let mut client = Client {
            runtime,
            rpc,
            outlet,
            inlet,
            config,
        };
        let address = client.config.address.to_string();
        match client.poll_message(PATIENCE)? {
            Some(Response::Arbitration(answer)) => match answer.status {
                Some(status) if status.code == Code::Ok as i32 => Ok(client),
                _ => Err(ClientError::NotPrimary { address }),
            },
            _ => Err(ClientError::Ended { address }),
        }
    }

    fn election(&self) -> Option<p4::Uint128> {
        Some(election(self.config.election_id))
    }

    /// Gives the switch a program.
    ///
    /// The switch checks it, then runs it with the program's own entries only.
    ///
    /// # Errors
    /// Fails if the switch refuses it.
    pub fn set_pipeline(&mut self, info: P4Info, program: String) -> Result<(), ClientError> {
        let request = p4::SetForwardingPipelineConfigRequest {
            device_id: self.config.device_id,
            election_id: self.election(),
            action: Action::VerifyAndCommit as i32,
            config: Some(p4::ForwardingPipelineConfig {
                p4info: Some(info),
                p4_device_config: Bytes::from(program),
                cookie: None,
            }),
            ..Default::default()
        };
        let answer = self.rpc.set_forwarding_pipeline_config(request);
        let answer = self.runtime.block_on(answer);
        answer.map(|_| ()).map_err(|status| refused(&status))
    }

    /// Writes all updates or none; they are done when this returns.
    ///
    /// # Errors
    /// Fails if the switch refuses one.
    pub fn write(&mut self, updates: Vec<p4::Update>) -> Result<(), ClientError> {
        if updates.is_empty() {
            return Ok(());
        }
        let request = p4::WriteRequest {
            device_id: self.config.device_id,
            election_id: self.election(),
            updates,
            atomicity: p4::write_request::Atomicity::RollbackOnError as i32,
            ..Default::default()
        };
        let answer = self.runtime.block_on(self.rpc.write(request));
        answer.map(|_| ()).map_err(|status| refused(&status))
    }

    /// Receives the next message of the switch; `None` if there is none within `patience`.
    ///
    /// # Errors
    /// Fails if the switch has ended the stream.
    pub fn poll_message(&mut self, patience: Duration) -> Result<Option<Response>, ClientError> {
        let inlet = &mut self.inlet;
        let next = async { tokio::time::timeout(patience, inlet.message()).await };
        match self.runtime.block_on(next) {
            Err(_) => Ok(None),
            Ok(Ok(Some(message))) => Ok(message.update),
            Ok(Ok(None)) => Err(self.ended()),
            Ok(Err(status)) => Err(refused(&status)),
        }
    }

    /// Sends a message on the stream.
    ///
    /// # Errors
    /// Fails if the switch has ended the stream.
    pub fn send(&mut self, message: Request) -> Result<(), ClientError> {
        let message = p4::StreamMessageRequest {
            update: Some(message),
        };
        let sent = self.runtime.block_on(self.outlet.send(message));
        sent.map_err(|_| self.ended())
    }

    fn ended(&self) -> ClientError {
        ClientError::Ended {
            address: self.config.address.to_string(),
        }
    }
}

type Opened = (
    P4RuntimeClient<Channel>,
    mpsc::Sender<p4::StreamMessageRequest>,
    tonic::Streaming<p4::StreamMessageResponse>,
);

async fn open(config: &ClientConfig) -> Result<Opened, ClientError> {
    let channel = connect::channel(&config.address, config.tls.as_ref()).await?;
    let mut rpc = P4RuntimeClient::new(channel);
    let (outlet, receiver) = mpsc::channel(MESSAGES);
    let primary = p4::MasterArbitrationUpdate {
        device_id: config.device_id,
        election_id: Some(election(config.election_id)),
        ..Default::default()
    };
    let message = p4::StreamMessageRequest {
        update: Some(Request::Arbitration(primary)),
    };
    let ended = |_| ClientError::Ended {
        address: config.address.to_string(),
    };
    outlet.send(message).await.map_err(ended)?;
    let stream = rpc.stream_channel(ReceiverStream::new(receiver)).await;
    let inlet = stream.map_err(|status| refused(&status))?.into_inner();
    Ok((rpc, outlet, inlet))
}

fn election(id: u128) -> p4::Uint128 {
    p4::Uint128 {
        high: (id >> 64) as u64,
        low: id as u64,
    }
}

fn refused(status: &tonic::Status) -> ClientError {
    ClientError::Refused(Failure::from_status(status))
}
