//! Mutual TLS, version 1.3 only (RFC 8446); every client needs a certificate of our
//! authorities.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

use super::listen::Listen;

/// The protocol that clients must request (RFC 7301; HTTP/2 is `h2`).
pub(crate) const HTTP2: &[u8] = b"h2";

/// Files in PEM form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TlsFiles {
    /// The server's certificate, with those between it and an authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authorities whose clients may connect.
    pub client_authorities: PathBuf,
}

/// Why certificates or keys cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// TLS is configured without its files.
    #[error("TLS needs a certificate, a key and the clients' authorities; give all three")]
    Missing,
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file has the wrong content.
    #[error("{}: {what}; give a file in PEM form", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// A description of the fault.
        what: String,
    },
}

/// The acceptor for an address, if the address uses TLS. Clients that name protocols must name
/// one of these.
pub(crate) fn acceptor(
    listen: &Listen,
    files: Option<&TlsFiles>,
    protocols: &[&[u8]],
) -> Result<Option<TlsAcceptor>, TlsError> {
    if !matches!(listen, Listen::Tls(_)) {
        return Ok(None);
    }
    let files = files.ok_or(TlsError::Missing)?;
    let provider = Arc::new(default_provider());
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(&files.client_authorities)? {
        let added = authorities.add(certificate);
        added.map_err(|error| unusable(&files.client_authorities, error))?;
    }
    let clients = WebPkiClientVerifier::builder_with_provider(authorities.into(), provider.clone());
    let clients = clients.build();
    let clients = clients.map_err(|error| unusable(&files.client_authorities, error))?;
    let pem = read(&files.key)?;
    let key = PrivateKeyDer::from_pem_slice(&pem);
    let key = key.map_err(|error| unusable(&files.key, error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| unusable(&files.certificate, error))?
        .with_client_cert_verifier(clients)
        .with_single_cert(certificates(&files.certificate)?, key)
        .map_err(|error| unusable(&files.certificate, error))?;
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Some(TlsAcceptor::from(Arc::new(config))))
}

pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let pem = read(path)?;
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match certificates {
        Ok(certificates) if !certificates.is_empty() => Ok(certificates),
        Ok(_) => Err(unusable(path, "there is no certificate in it")),
        Err(error) => Err(unusable(path, error)),
    }
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    fs::read(path).map_err(|source| TlsError::Unreadable {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn unusable(path: &Path, what: impl ToString) -> TlsError {
    TlsError::Unusable {
        path: path.to_owned(),
        what: what.to_string(),
    }
}
