# Writes gas.json: ITU-R P.676-12 and P.835-6 by the Python package itur (pip install itur, in a venv).
# python gas_oracle.py > gas.json
import itertools, json, sys, warnings
import itur
from itur.models import itu676, itu835
warnings.filterwarnings("ignore")
itu676.change_version(12)
FREQUENCIES = [1.6, 7.0, 10.7, 12.0, 14.25, 20.0, 22.235, 28.5, 37.5, 47.0, 60.0, 75.0, 118.75, 183.31, 300.0]
air, specific, slant = [], [], []
for h in [0, 0.5, 2, 5, 10.9, 15, 25, 40, 50, 60, 75]:
    air.append(dict(height_km=h, temperature_k=float(itu835.standard_temperature(h).value),
                    pressure_hpa=float(itu835.standard_pressure(h).value),
                    vapour_g_per_m3=float(itu835.standard_water_vapour_density(h).value)))
for f, p, rho, t in itertools.product(FREQUENCIES, [1013.25, 600.0, 50.0], [0.0, 7.5, 25.0], [250.0, 288.15, 305.0]):
    db = itu676.gamma_exact(f, p, rho, t)
    specific.append(dict(frequency_ghz=f, pressure_hpa=p, vapour_g_per_m3=rho, temperature_k=t, db_per_km=float(db.value)))
for f, el, rho in itertools.product(FREQUENCIES, [1, 5, 10, 25, 40, 80], [7.5, 20.0]):
    a = itu676.gaseous_attenuation_slant_path(f, el, rho, 1013.25, 288.15, mode="exact")
    slant.append(dict(frequency_ghz=f, elevation_deg=el, vapour_g_per_m3=rho, attenuation_db=float(a.value)))
json.dump(dict(library="itur", version=itur.__version__, air=air, specific=specific, slant=slant), sys.stdout, indent=0)
