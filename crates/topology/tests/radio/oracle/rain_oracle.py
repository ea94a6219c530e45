# Writes rain.json: ITU-R P.838-3 and P.618-13 by the Python package itur (pip install itur, in a venv).
# python rain_oracle.py > rain.json
import sys, json, itertools, numpy as np, itur, warnings
warnings.filterwarnings("ignore")
from itur.models import itu838, itu618, itu839
itu838.change_version(3) if hasattr(itu838,'change_version') else None
spec=[]
for f,el,tau in itertools.product([1.6,7.0,12.0,20.0,30.0,50.0,90.0],[5,25,60,90],[0,45,90]):
    k,a=itu838.rain_specific_attenuation_coefficients(f,el,tau)
    spec.append(dict(frequency_ghz=f,elevation_deg=el,tilt_deg=tau,k=float(k),alpha=float(a)))
slant=[]
for (lat,lon),f,el,tau,R,hs in itertools.product([(51.5,-0.14),(-1.29,36.82),(28.717,77.3)],[12.0,20.0,30.0],[4,25,40,80],[45],[5.0,30.0,95.0],[0.0,1.6]):
    hr=float(itu839.rain_height(lat,lon).value)
    A=itu618.rain_attenuation(lat,lon,f,el,hs=hs,p=0.01,R001=R,tau=tau)
    slant.append(dict(latitude_deg=lat,rain_height_km=hr,frequency_ghz=f,elevation_deg=el,tilt_deg=tau,rain_mm_per_h=R,station_km=hs,attenuation_db=float(A.value)))
json.dump(dict(library="itur",version=itur.__version__,p838=itu838.get_version() if hasattr(itu838,'get_version') else '3',p618=itu618.get_version(),specific=spec,slant=slant),sys.stdout,indent=0)

