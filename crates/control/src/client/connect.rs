//! A client's connection: a Unix socket, TCP, or TLS 1.3 with certificates on both sides.

use std::io;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use rustls_pki_types::{PrivateKeyDer, ServerName, pem::PemObject};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{self, RootCertStore};
use tonic::transport::{Channel, Endpoint};

use super::{ClientError, ClientFiles};
use crate::server::{HTTP2, Listen, Stream, TlsError, certificates, read_file, unusable};

/// The requested authority; the connector has the address.
const AUTHORITY: &str = "http://switch";

/// Opens a connection.
pub(super) async fn channel(
    address: &Listen,
    files: Option<&ClientFiles>,
) -> Result<Channel, ClientError> {
    let tls = match address {
        Listen::Tls(_) => Some(connector(files.ok_or(TlsError::Missing)?)?),
        _ => None,
    };
    let to = address.clone();
    let connect = tower::service_fn(move |_| {
        let (to, tls) = (to.clone(), tls.clone());
        async move { stream(&to, tls).await.map(TokioIo::new) }
    });
    let endpoint = Endpoint::from_static(AUTHORITY);
    let channel = endpoint.connect_with_connector(connect).await;
    channel.map_err(|error| {
        // The innermost error is the system's.
        let mut reason: &dyn std::error::Error = &error;
        while let Some(inner) = reason.source() {
            reason = inner;
        }
        ClientError::Unreachable {
            address: address.to_string(),
            what: reason.to_string(),
        }
    })
}

async fn stream(to: &Listen, tls: Option<TlsConnector>) -> io::Result<Box<dyn Stream>> {
    match to {
        Listen::Unix(path) => Ok(Box::new(UnixStream::connect(path).await?)),
        Listen::Plain(address) | Listen::Tls(address) => {
            let tcp = TcpStream::connect(address).await?;
            tcp.set_nodelay(true)?;
            match tls {
                None => Ok(Box::new(tcp)),
                Some(tls) => {
                    let name = ServerName::IpAddress(address.ip().into());
                    Ok(Box::new(tls.connect(name, tcp).await?))
                }
            }
        }
    }
}

fn connector(files: &ClientFiles) -> Result<TlsConnector, TlsError> {
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(&files.server_authorities)? {
        let added = authorities.add(certificate);
        added.map_err(|error| unusable(&files.server_authorities, error))?;
    }
    let key = PrivateKeyDer::from_pem_slice(&read_file(&files.key)?);
    let key = key.map_err(|error| unusable(&files.key, error))?;
    let mut config = rustls::ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable(&files.certificate, error))?
        .with_root_certificates(authorities)
        .with_client_auth_cert(certificates(&files.certificate)?, key)
        .map_err(|error| unusable(&files.certificate, error))?;
    config.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(Arc::new(config).into())
}
