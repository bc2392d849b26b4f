from shuffledp import krr as krr
from shuffledp.accountant import Interval as Interval
from shuffledp.accountant import bounds as bounds
from shuffledp.accountant import calibrate as calibrate
from shuffledp.accountant import delta as delta
from shuffledp.accountant import epsilon as epsilon
from shuffledp.accountant import log_delta as log_delta
from shuffledp.accounting.setting import Setting as Setting

__version__: str
