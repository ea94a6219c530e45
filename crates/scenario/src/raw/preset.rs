//! `preset`: constellations by name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A designed constellation by name: one Walker shell, with phasing that keeps satellites farthest
/// apart where the source gives none.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// 66 satellites, 6 planes, 780 km, 86.4 deg, star. OpenSN (Lu et al., 2024), table IV, whose
    /// columns of orbits and satellites per orbit are exchanged for this row; 6 x 11 as flown. Planes
    /// are 30 deg apart; with `walker` and `plane_spacing: 31.6 deg` they are where Iridium's fly.
    Iridium,
    /// 720 satellites, 18 planes, 1200 km, 87.9 deg, star. OpenSN, table IV; FCC SAT-
    /// LOI-20160428-00041.
    Oneweb,
    /// 1156 satellites, 34 planes, 630 km, 51.9 deg. OpenSN, table IV; FCC 20-102.
    Kuiper,
    /// 1296 satellites, 36 planes, 610 km, 42 deg. FCC 20-102.
    #[serde(rename = "kuiper-610")]
    Kuiper610,
    /// 784 satellites, 28 planes, 590 km, 33 deg. FCC 20-102.
    #[serde(rename = "kuiper-590")]
    Kuiper590,
    /// 1584 satellites, 72 planes, 550 km, 53 deg. OpenSN, table IV; Gen1 as modified, FCC 21-48.
    #[serde(rename = "starlink-shell1")]
    StarlinkShell1,
    /// 1584 satellites, 72 planes, 540 km, 53.2 deg. OpenSN, table IV; FCC 21-48.
    #[serde(rename = "starlink-shell2")]
    StarlinkShell2,
    /// 720 satellites, 36 planes, 570 km, 70 deg. OpenSN, table IV; FCC 21-48.
    #[serde(rename = "starlink-shell3")]
    StarlinkShell3,
    /// 348 satellites, 6 planes, 560 km, 97.6 deg, star. OpenSN, table IV and section V-F; FCC
    /// 21-48.
    #[serde(rename = "starlink-shell4")]
    StarlinkShell4,
    /// 172 satellites, 4 planes, 560 km, 97.6 deg, star. OpenSN, table IV and section V-F; FCC
    /// 21-48.
    #[serde(rename = "starlink-shell5")]
    StarlinkShell5,
    /// 1600 satellites, 32 planes, 1150 km, 53 deg: the core of Starlink's first filing. LEOTP
    /// (Jiang et al., 2023), section V; FCC SAT-LOA-20161115-00118.
    #[serde(rename = "starlink-core")]
    StarlinkCore,
    /// 351 satellites, 27 planes, 1015 km, 98.98 deg, star: the polar part of Lightspeed's second
    /// phase. FCC SAT-MPL-20200526-00053.
    #[serde(rename = "telesat-polar")]
    TelesatPolar,
    /// 1320 satellites, 40 planes, 1325 km, 50.88 deg: the inclined part. FCC SAT-
    /// MPL-20200526-00053.
    #[serde(rename = "telesat-inclined")]
    TelesatInclined,
    /// 5280 satellites, 48 planes, 340 km, 53 deg. Gen2 as filed, FCC SAT-AMD-20210818-00105.
    #[serde(rename = "starlink-gen2-340")]
    StarlinkGen2At340,
    /// 5280 satellites, 48 planes, 345 km, 46 deg. Gen2 as filed, FCC SAT-AMD-20210818-00105.
    #[serde(rename = "starlink-gen2-345")]
    StarlinkGen2At345,
    /// 5280 satellites, 48 planes, 350 km, 38 deg. Gen2 as filed, FCC SAT-AMD-20210818-00105.
    #[serde(rename = "starlink-gen2-350")]
    StarlinkGen2At350,
    /// 3600 satellites, 30 planes, 360 km, 96.9 deg. Gen2 as filed, FCC SAT-
    /// AMD-20210818-00105.
    #[serde(rename = "starlink-gen2-360")]
    StarlinkGen2At360,
    /// 3360 satellites, 28 planes, 525 km, 53 deg. Gen2 as filed, FCC SAT-AMD-20210818-00105;
    /// authorised in part by FCC 22-91.
    #[serde(rename = "starlink-gen2-525")]
    StarlinkGen2At525,
    /// 3360 satellites, 28 planes, 530 km, 43 deg. Gen2 as filed, FCC SAT-AMD-20210818-00105;
    /// authorised in part by FCC 22-91.
    #[serde(rename = "starlink-gen2-530")]
    StarlinkGen2At530,
    /// 3360 satellites, 28 planes, 535 km, 33 deg. Gen2 as filed, FCC SAT-AMD-20210818-00105;
    /// authorised in part by FCC 22-91.
    #[serde(rename = "starlink-gen2-535")]
    StarlinkGen2At535,
    /// 144 satellites, 12 planes, 604 km, 148 deg. Gen2 as filed, FCC SAT-AMD-20210818-00105.
    #[serde(rename = "starlink-gen2-604")]
    StarlinkGen2At604,
    /// 324 satellites, 18 planes, 614 km, 115.7 deg. Gen2 as filed, FCC SAT-AMD-20210818-00105.
    #[serde(rename = "starlink-gen2-614")]
    StarlinkGen2At614,
}

impl Preset {
    /// All of them.
    pub const ALL: [Preset; 22] = [
        Preset::Iridium,
        Preset::Oneweb,
        Preset::Kuiper,
        Preset::Kuiper610,
        Preset::Kuiper590,
        Preset::StarlinkShell1,
        Preset::StarlinkShell2,
        Preset::StarlinkShell3,
        Preset::StarlinkShell4,
        Preset::StarlinkShell5,
        Preset::StarlinkCore,
        Preset::TelesatPolar,
        Preset::TelesatInclined,
        Preset::StarlinkGen2At340,
        Preset::StarlinkGen2At345,
        Preset::StarlinkGen2At350,
        Preset::StarlinkGen2At360,
        Preset::StarlinkGen2At525,
        Preset::StarlinkGen2At530,
        Preset::StarlinkGen2At535,
        Preset::StarlinkGen2At604,
        Preset::StarlinkGen2At614,
    ];
}
