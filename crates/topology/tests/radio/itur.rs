//! Against the Python package itur; `oracle/rain_oracle.py` writes its numbers.

use constel_topology::radio::{Air, Gases, REFERENCE_VAPOUR_G_PER_M3, RainPath, specific};
use serde::Deserialize;

#[derive(Deserialize)]
struct Oracle {
    specific: Vec<Coefficients>,
    slant: Vec<Slant>,
}

#[derive(Deserialize)]
struct Coefficients {
    frequency_ghz: f64,
    elevation_deg: f64,
    tilt_deg: f64,
    k: f64,
    alpha: f64,
}

#[derive(Deserialize)]
struct Slant {
    latitude_deg: f64,
    rain_height_km: f64,
    frequency_ghz: f64,
    elevation_deg: f64,
    tilt_deg: f64,
    rain_mm_per_h: f64,
    station_km: f64,
    attenuation_db: f64,
}

fn oracle() -> Oracle {
    serde_json::from_str(include_str!("oracle/rain.json")).unwrap()
}

#[test]
fn coefficients_are_those_of_itur() {
    let all = oracle().specific;
    assert!(all.len() > 80);
    let mut worst: f64 = 0.0;
    for o in all {
        let own = specific(
            o.frequency_ghz,
            o.elevation_deg.to_radians(),
            o.tilt_deg.to_radians(),
        );
        worst = worst
            .max((own.k / o.k - 1.0).abs())
            .max((own.alpha / o.alpha - 1.0).abs());
    }
    println!("largest relative difference of k and alpha: {worst:e}");
    assert!(worst < 1e-9);
}

#[test]
fn slant_attenuation_is_that_of_itur() {
    let all = oracle().slant;
    assert!(all.len() > 200);
    let mut worst: f64 = 0.0;
    for o in all {
        let path = RainPath {
            frequency_ghz: o.frequency_ghz,
            elevation_rad: o.elevation_deg.to_radians(),
            tilt_rad: o.tilt_deg.to_radians(),
            latitude_rad: o.latitude_deg.to_radians(),
            station_m: o.station_km * 1e3,
            rain_height_m: o.rain_height_km * 1e3,
        };
        let own = path.attenuation_db(o.rain_mm_per_h);
        worst = worst.max((own / o.attenuation_db - 1.0).abs());
    }
    println!("largest relative difference of attenuation: {worst:e}");
    assert!(worst < 1e-9);
}

#[derive(Deserialize)]
struct Gas {
    air: Vec<AirAt>,
    specific: Vec<GasSpecific>,
    slant: Vec<GasSlant>,
}

#[derive(Deserialize)]
struct AirAt {
    height_km: f64,
    temperature_k: f64,
    pressure_hpa: f64,
    vapour_g_per_m3: f64,
}

#[derive(Deserialize)]
struct GasSpecific {
    frequency_ghz: f64,
    pressure_hpa: f64,
    vapour_g_per_m3: f64,
    temperature_k: f64,
    db_per_km: f64,
}

#[derive(Deserialize)]
struct GasSlant {
    frequency_ghz: f64,
    elevation_deg: f64,
    vapour_g_per_m3: f64,
    attenuation_db: f64,
}

fn gas() -> Gas {
    serde_json::from_str(include_str!("oracle/gas.json")).unwrap()
}

#[test]
fn air_and_its_attenuation_are_those_of_itur() {
    let oracle = gas();
    assert!(oracle.air.len() > 10 && oracle.specific.len() > 300);
    for o in oracle.air {
        let own = Air::reference(o.height_km, REFERENCE_VAPOUR_G_PER_M3);
        assert!((own.temperature_k - o.temperature_k).abs() < 1e-6);
        assert!((own.pressure_hpa / o.pressure_hpa - 1.0).abs() < 1e-9);
        assert!((own.vapour_g_per_m3 / o.vapour_g_per_m3 - 1.0).abs() < 1e-9);
    }
    let mut worst: f64 = 0.0;
    for o in oracle.specific {
        let air = Air {
            pressure_hpa: o.pressure_hpa,
            vapour_g_per_m3: o.vapour_g_per_m3,
            temperature_k: o.temperature_k,
        };
        worst = worst.max((air.db_per_km(o.frequency_ghz) / o.db_per_km - 1.0).abs());
    }
    println!("largest relative difference of dB/km: {worst:e}");
    assert!(worst < 1e-9);
}

#[test]
fn slant_attenuation_by_gases_is_that_of_itur() {
    let all = gas().slant;
    assert!(all.len() > 150);
    let mut worst: f64 = 0.0;
    for o in all {
        let own = Gases::new(o.frequency_ghz, o.vapour_g_per_m3)
            .attenuation_db(0.0, o.elevation_deg.to_radians());
        worst = worst.max((own / o.attenuation_db - 1.0).abs());
    }
    println!("largest relative difference by gases: {worst}");
    assert!(worst < 0.02);
}
