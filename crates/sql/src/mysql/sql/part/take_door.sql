IF(IS_USED_LOCK({door}) <=> CONNECTION_ID(), 0, GET_LOCK({door}, 0))
