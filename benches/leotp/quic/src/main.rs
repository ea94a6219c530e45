//! `quic-bench server ADDR:PORT` sends an endless stream to each client;
//! `quic-bench client ADDR:PORT SECONDS` receives and reports. One thread each,
//! the certificate unchecked: only the transport is measured.

use quinn::crypto::rustls::QuicClientConfig;
use quinn::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer, ServerName, UnixTime};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

type Res<T> = Result<T, Box<dyn std::error::Error>>;

#[derive(Debug)]
struct Anyone(Arc<rustls::crypto::CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        m: &[u8],
        c: &CertificateDer<'_>,
        d: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(m, c, d, &self.0.signature_verification_algorithms)
    }
    fn verify_tls13_signature(
        &self,
        m: &[u8],
        c: &CertificateDer<'_>,
        d: &rustls::DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(m, c, d, &self.0.signature_verification_algorithms)
    }
    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

fn transport() -> Arc<TransportConfig> {
    let mut t = TransportConfig::default();
    t.stream_receive_window(VarInt::from_u32(64 << 20));
    t.receive_window(VarInt::from_u32(64 << 20));
    t.send_window(64 << 20);
    t.max_idle_timeout(Some(VarInt::from_u32(5000).into()));
    Arc::new(t)
}

fn cpu_s() -> f64 {
    // SAFETY: getrusage fills the zeroed structure.
    let u = unsafe {
        let mut u: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut u);
        u
    };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    s(u.ru_utime) + s(u.ru_stime)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Res<()> {
    let a: Vec<String> = std::env::args().collect();
    let addr: SocketAddr = a.get(2).ok_or("ADDR:PORT")?.parse()?;
    match a.get(1).map(String::as_str) {
        Some("server") => server(addr).await,
        Some("client") => client(addr, a.get(3).ok_or("SECONDS")?.parse()?).await,
        _ => Err("server or client".into()),
    }
}

async fn server(addr: SocketAddr) -> Res<()> {
    let cert = rcgen::generate_simple_self_signed(vec!["bench".into()])?;
    let key = PrivatePkcs8KeyDer::from(cert.signing_key.serialize_der());
    let mut c = ServerConfig::with_single_cert(vec![cert.cert.der().clone()], key.into())?;
    c.transport_config(transport());
    let e = Endpoint::server(c, addr)?;
    // One client, then the report.
    let conn = e.accept().await.ok_or("closed")?.await?;
    let before = cpu_s();
    let mut s = conn.open_uni().await?;
    let chunk = vec![7u8; 1 << 16];
    let mut bytes = 0u64;
    while s.write_all(&chunk).await.is_ok() {
        bytes += chunk.len() as u64;
    }
    println!("{{\"bytes\": {bytes}, \"cpu_s\": {}}}", cpu_s() - before);
    Ok(())
}

async fn client(addr: SocketAddr, seconds: u64) -> Res<()> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider)))
        .with_no_client_auth();
    let mut c = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    c.transport_config(transport());
    let any: SocketAddr = ([0, 0, 0, 0], 0).into();
    let mut e = Endpoint::client(any)?;
    e.set_default_client_config(c);
    let conn = e.connect(addr, "bench")?.await?;
    let mut r = conn.accept_uni().await?;
    let (start, before) = (Instant::now(), cpu_s());
    let mut bytes = 0u64;
    while start.elapsed() < Duration::from_secs(seconds) {
        match r.read_chunk(usize::MAX, false).await? {
            Some(c) => bytes += c.bytes.len() as u64,
            None => break,
        }
    }
    let s = start.elapsed().as_secs_f64();
    println!(
        "{{\"bytes\": {bytes}, \"seconds\": {s}, \"rate_bps\": {}, \"cpu_s\": {}}}",
        bytes as f64 * 8.0 / s,
        cpu_s() - before
    );
    conn.close(VarInt::from_u32(0), b"done");
    e.wait_idle().await;
    Ok(())
}
