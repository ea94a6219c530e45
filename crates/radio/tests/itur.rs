//! Against the Python package itur; `oracle/rain_oracle.py` writes its numbers.

use constel_radio::{RainPath, specific};
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
