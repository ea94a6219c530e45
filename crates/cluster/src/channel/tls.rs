//! TLS between two holders of one secret.
//!
//! The library has no external pre-shared keys (RFC 8446, 4.2.11). The secret becomes two pairs of Ed25519 keys instead: one
//! of the machine, one of all requesters. Each end presents its public key without a certificate (RFC 7250), and accepts only
//! the other key.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};

use crate::underlay::Key;

/// The protocol's name in the handshake. Another version of it fails there.
const PROTOCOL: &[u8] = b"constel/1";
/// An Ed25519 key in PKCS #8 (RFC 8410) is these bytes and the 32 of the seed.
const PKCS8: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// Returns the settings of an end that requests.
///
/// # Errors
/// If the library refuses a key.
pub(super) fn client(key: &Key) -> Result<Arc<ClientConfig>, Error> {
    let (own, other) = (pair(key, End::Requester)?, pair(key, End::Machine)?);
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Only::new(&other, provider)?))
        .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(own)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// Returns the settings of an agent.
///
/// # Errors
/// If the library refuses a key.
pub(super) fn server(key: &Key) -> Result<Arc<ServerConfig>, Error> {
    let (own, other) = (pair(key, End::Machine)?, pair(key, End::Requester)?);
    let provider = Arc::new(ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(Only::new(&other, provider)?))
        .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)));
    config.alpn_protocols = vec![PROTOCOL.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// An end of a connection.
#[derive(Clone, Copy)]
enum End {
    Machine,
    Requester,
}

/// Returns the pair of keys of an end.
fn pair(key: &Key, end: End) -> Result<Arc<CertifiedKey>, Error> {
    let context = match end {
        End::Machine => "constel requests: the machine",
        End::Requester => "constel requests: the requester",
    };
    let secret = [&PKCS8[..], &key.derive(context)].concat();
    let key = ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(secret))?;
    let public = key.public_key().map(|public| public.to_vec());
    // The library passes a public key where it passes a certificate otherwise.
    let public = CertificateDer::from(public.unwrap_or_default());
    Ok(Arc::new(CertifiedKey::new(vec![public], key)))
}

/// Accepts one public key.
#[derive(Debug)]
struct Only {
    public: Vec<u8>,
    provider: Arc<CryptoProvider>,
}

impl Only {
    fn new(pair: &CertifiedKey, provider: Arc<CryptoProvider>) -> Result<Self, Error> {
        Ok(Self {
            public: pair.end_entity_cert()?.to_vec(),
            provider,
        })
    }

    fn check(&self, public: &CertificateDer<'_>) -> Result<(), Error> {
        match public.as_ref() == self.public {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn check_signature(
        &self,
        message: &[u8],
        public: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let public = SubjectPublicKeyInfoDer::from(public.as_ref());
        let schemes = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &public, signed, schemes)
    }
}

/// Returns the refusal of a version that neither end offers.
fn older() -> Error {
    Error::General("TLS 1.2 is not offered".to_owned())
}

impl ServerCertVerifier for Only {
    fn verify_server_cert(
        &self,
        public: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(public).map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(older())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        public: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, public, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Only {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        public: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(public).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(older())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        public: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.check_signature(message, public, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
